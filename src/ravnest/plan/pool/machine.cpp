#include "ravnest/plan/pool/machine.h"

#include <algorithm>

namespace ravnest::plan {

std::vector<Machine> machines_of(const Pool& pool) {
  // A machine that nobody measured stands between those that were.
  std::vector<double> measured;
  for (const PoolNode& node : pool.nodes) {
    if (node.compute_gflops) measured.push_back(*node.compute_gflops);
  }
  std::sort(measured.begin(), measured.end());
  const double assumed = measured.empty() ? kAssumedGflops : measured[measured.size() / 2];
  std::vector<Machine> machines;
  for (const PoolNode& node : pool.nodes) {
    machines.push_back({.ram_bytes = node.ram_gb * 1e9,
                        .process_bytes = node.process_gb.value_or(kAssumedProcessGb) * 1e9,
                        .link_bytes_per_s = node.bandwidth_mbps * 1e6 / 8,
                        .latency_s = node.latency_ms.value_or(0) * 1e-3,
                        .flops_per_s = node.compute_gflops.value_or(assumed) * 1e9});
  }
  return machines;
}

bool compute_known(const Pool& pool) {
  return std::all_of(pool.nodes.begin(), pool.nodes.end(),
                     [](const PoolNode& node) { return node.compute_gflops.has_value(); });
}

}  // namespace ravnest::plan
