#include "ravnest/plan/pool/pool_entry.h"

#include <cmath>
#include <cstdlib>
#include <system_error>

#include "ravnest/base/file.h"
#include "ravnest/base/json.h"
#include "ravnest/net/address.h"
#include "ravnest/plan/pool/pool.h"
#include "ravnest/plan/pool/range.h"

namespace ravnest::plan {
namespace {

using nlohmann::ordered_json;

double rounded(double value) {
  if (value <= 0) return 0.0;
  const double scale = std::pow(10.0, 3 - std::floor(std::log10(value)));
  return std::round(value * scale) / scale;
}

Status check(const PoolEntry& entry) {
  if (const auto address = parse_address(entry.ip); !address.ok()) return address.status();
  if (Status ram = expect_within(kRamGb, "ram", entry.ram_gb); !ram.ok()) return ram;
  if (Status link = expect_within(kBandwidthMbps, "bandwidth", entry.bandwidth_mbps); !link.ok()) return link;
  if (entry.compute_gflops) {
    if (Status compute = expect_within(kComputeGflops, "compute", *entry.compute_gflops); !compute.ok()) return compute;
  }
  if (entry.process_gb) {
    if (Status process = expect_within(kProcessGb, "process", *entry.process_gb); !process.ok()) return process;
  }
  return entry.latency_ms ? expect_within(kLatencyMs, "latency", *entry.latency_ms) : Status();
}

}  // namespace

ordered_json to_json(const PoolEntry& entry) {
  ordered_json benchmarks = {{"ram", rounded(entry.ram_gb)}, {"bandwidth", rounded(entry.bandwidth_mbps)}};
  if (entry.process_gb) benchmarks["process"] = rounded(*entry.process_gb);
  if (entry.compute_gflops) benchmarks["compute"] = rounded(*entry.compute_gflops);
  if (entry.latency_ms) benchmarks["latency"] = rounded(*entry.latency_ms);
  return {{"IP", entry.ip}, {"benchmarks", std::move(benchmarks)}};
}

Result<PoolWithEntry> with_entry(std::optional<std::string_view> pool, const PoolEntry& entry, std::string_view what) {
  if (Status status = check(entry); !status.ok()) return status;
  PoolWithEntry result{ordered_json::object()};
  if (pool) {
    if (const Result<Pool> known = decode_pool(*pool, what); !known.ok()) return known.status();
    result.pool = *parse_json_by_hand(*pool, what);
  }
  const ordered_json added = to_json(entry);
  for (auto& [key, existing] : result.pool.items()) {
    if (existing["IP"] != entry.ip) continue;
    existing["benchmarks"].update(added["benchmarks"]);
    result.number = std::strtoull(key.c_str(), nullptr, 10);
    result.replaced = true;
    return result;
  }
  result.number = result.pool.size();
  result.pool[std::to_string(result.number)] = added;
  return result;
}

Result<PoolWithEntry> write_entry(const std::filesystem::path& path, const PoolEntry& entry) {
  const auto existing = read_file(path);
  if (!existing.ok() && existing.status().code() != Code::kNotFound) return existing.status();
  auto result =
      with_entry(existing.ok() ? std::optional<std::string_view>(*existing) : std::nullopt, entry, path.string());
  if (!result.ok()) return result.status();
  if (const auto folder = path.parent_path(); !folder.empty()) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return unavailable("cannot make the folder ", folder.string(), ": ", error.message());
  }
  if (Status written = write_file_atomically(path, result->pool.dump(2) + "\n"); !written.ok()) return written;
  return result;
}

}  // namespace ravnest::plan
