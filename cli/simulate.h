// `ravnest simulate`: of a pool, or of a protocol.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace ravnest::cli {

struct PoolOptions {
  std::filesystem::path archive;
  std::filesystem::path scenario;
  std::filesystem::path svg;
  std::filesystem::path json;
};
void simulate_pool(const PoolOptions& options);  // needs torch

struct ProtocolOptions {
  std::string protocol;  // "pipeline"; empty: a pool is simulated
  std::uint64_t seeds = 0;
  std::uint64_t first_seed = 0;
  std::string sabotage;
  bool verbose = false;
};
void simulate_protocol(const ProtocolOptions& options);

}  // namespace ravnest::cli
