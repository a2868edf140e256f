// What `cp` and `ls` share: the options of their connections, and the store.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>

#include "commands.h"
#include "own_environment.h"
#include "ranges.h"
#include "ravnest/object_store/object_store.h"

namespace ravnest::cli {

struct StoreFlags {
  double stall_s = 30;
  int attempts = 8;
};

inline void add_store_flags(CLI::App& command, StoreFlags& flags) {
  command.add_option("--stall", flags.stall_s, "Seconds without a byte after which a connection is given up")
      ->capture_default_str()
      ->check(between(0.1, 86400));
  command.add_option("--attempts", flags.attempts, "How often a request is tried in a row")
      ->capture_default_str()
      ->check(whole(1));
}

inline std::unique_ptr<object_store::ObjectStore> open_store(const StoreFlags& flags) {
  object_store::StoreOptions options;
  options.requests.stall = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(flags.stall_s));
  options.requests.attempts = flags.attempts;
  return require(object_store::ObjectStore::open(own_environment(), options));
}

}  // namespace ravnest::cli
