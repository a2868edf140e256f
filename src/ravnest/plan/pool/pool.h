// The pool: the machines that may take part, as `node_data/node_configs.json` lists them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/net/address.h"

namespace ravnest::plan {

struct PoolNode {
  Address address;                       // what others dial
  std::optional<Address> bind;           // where it listens, if elsewhere
  std::string label;                     // the user's "name" for the machine; may be empty
  double ram_gb = 0;                     // 10^9 bytes that the node may use
  double bandwidth_mbps = 0;             // 10^6 bits a second, each way
  std::optional<double> process_gb;      // of those, what its process takes without the model
  std::optional<double> compute_gflops;  // 10^9 operations a second
  std::optional<double> latency_ms;      // one way
  std::optional<double> reliability;     // chance to be there an hour from now
};

struct Pool {
  std::vector<PoolNode> nodes;     // index = the node's id
  std::vector<std::string> notes;  // what is odd about the file, without being wrong
};

// "node_3": the name under which a node is started, and which its certificate carries.
std::string node_name(int node);
// "node_3 (10.0.0.7:8080)", for messages.
std::string describe(const Pool& pool, int node);

// kInvalid with one sentence that names the file, the key path and what was expected; kNotFound where there is no file.
Result<Pool> read_pool(const std::filesystem::path& file);
Result<Pool> decode_pool(std::string_view json, std::string_view file);

}  // namespace ravnest::plan
