// A node of the pool in the units of the cost model: bytes, seconds, FLOPs. What the pool file leaves out is assumed.
#pragma once

#include <vector>

#include "ravnest/plan/pool/pool.h"

namespace ravnest::plan {

// Where nobody measured, all machines are taken for equal.
inline constexpr double kAssumedGflops = 50;
// What a node's process takes before it holds anything of the model, and the most that its libraries add while it
// trains: a Python script with torch and ravnest, on the CPU. `ravnest node`, without Python, takes 0.2 GB.
inline constexpr double kAssumedProcessGb = 0.29;

struct Machine {
  double ram_bytes = 0;
  double process_bytes = 0;     // of those, what the process takes without the model
  double link_bytes_per_s = 0;  // each way
  double latency_s = 0;         // one way
  double flops_per_s = 0;

  bool operator==(const Machine&) const = default;
};

std::vector<Machine> machines_of(const Pool& pool);
// Whether every node says how fast it computes.
bool compute_known(const Pool& pool);

}  // namespace ravnest::plan
