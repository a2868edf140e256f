// The subcommands of `ravnest`, one file each.
#pragma once

#include <CLI/CLI.hpp>

#include "ravnest/base/status.h"
#include "simulate.h"

namespace ravnest::cli {

// Of --resume, wherever it is.
inline constexpr const char* kResumeHelp =
    "Go on from a checkpoint: the newest, \"best\", the number of an update, a path, or false for none";

// Ends the command where `status` is a failure: its message goes to stderr and the exit status is 1.
void require(const Status& status);
template <class T>
T require(Result<T> result) {
  require(result.status());
  return std::move(result).value();
}

// The release of this command, such as "0.3.0".
const char* release();

void add_benchmark(CLI::App& app);          // needs torch
void add_plan(CLI::App& app);               // needs torch
void add_node(CLI::App& app);               // needs torch
void add_train(CLI::App& app);              // needs torch
void add_eval(CLI::App& app);               // needs torch
void add_up(CLI::App& app, bool has_node);  // whether there is `ravnest node`
void add_launch(CLI::App& app);
void add_explain(CLI::App& app);
// `simulate_pool` is what needs torch; null where there is none.
void add_simulate(CLI::App& app, void (*simulate_pool)(const PoolOptions&));
void add_pack(CLI::App& app);
void add_unpack(CLI::App& app);
void add_ping(CLI::App& app);
void add_doctor(CLI::App& app);
void add_fuse(CLI::App& app);
void add_checkpoint(CLI::App& app);
void add_token(CLI::App& app);
void add_cp(CLI::App& app);
void add_ls(CLI::App& app);

}  // namespace ravnest::cli
