// This machine's entry of the pool file (node_data/node_configs.json).
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "ravnest/base/status.h"

namespace ravnest::plan {

struct PoolEntry {
  std::string ip;  // HOST:PORT that the other nodes dial
  double ram_gb = 0;
  double bandwidth_mbps = 0;
  std::optional<double> compute_gflops = std::nullopt;
  std::optional<double> latency_ms = std::nullopt;
  std::optional<double> process_gb = std::nullopt;
};

// {"IP": ..., "benchmarks": {...}}, with four significant digits: no measurement has more to say.
nlohmann::ordered_json to_json(const PoolEntry& entry);

// The pool with the entry in it, and the number that it stands under.
struct PoolWithEntry {
  nlohmann::ordered_json pool;
  std::size_t number = 0;
  bool replaced = false;
};

// Adds the entry to the text of a pool file under the next free number, or puts its numbers into the entry with the
// same IP, whose other keys stay; so do all other entries, in their order. An empty `pool` has no entries. `what` names
// the file in errors: kInvalid where the entry's own address or numbers are bad, or where the text is no pool,
// with the key path and what was expected there.
Result<PoolWithEntry> with_entry(std::optional<std::string_view> pool, const PoolEntry& entry, std::string_view what);

// The same on a file, which is made, with its folder, where it does not exist. It appears whole or stays as it was.
Result<PoolWithEntry> write_entry(const std::filesystem::path& path, const PoolEntry& entry);

}  // namespace ravnest::plan
