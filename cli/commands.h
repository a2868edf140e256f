// The subcommands of `ravnest`, one file each.
#pragma once

#include <CLI/CLI.hpp>

#include "ravnest/base/status.h"

// Ends the command where `status` is a failure: its message goes to stderr and the exit status is 1.
void require(const ravnest::Status& status);

void add_pack(CLI::App& app);
void add_unpack(CLI::App& app);
