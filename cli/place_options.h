// The flags that say which part of a data-parallel run this machine has, the same for every command that starts one.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>

#include "ravnest/strategy/place/place.h"

namespace ravnest::cli {

struct PlaceOptions {
  strategy::PlaceFlags flags;
  std::filesystem::path token_file;  // empty: not given
};

// --devices, --nodes, --node-rank, --master and --token-file. `options` has to live until the command is parsed.
void add_place_options(CLI::App& command, PlaceOptions& options);

}  // namespace ravnest::cli
