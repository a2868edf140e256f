#include "ravnest/machine/pool_entry.h"

#include <cmath>
#include <cstdlib>
#include <set>
#include <system_error>
#include <vector>

#include "ravnest/base/file.h"
#include "ravnest/base/json.h"
#include "ravnest/base/printable.h"
#include "ravnest/machine/address.h"

namespace ravnest {
namespace {

using nlohmann::ordered_json;

double rounded(double value) {
  if (value <= 0) return 0.0;
  const double scale = std::pow(10.0, 3 - std::floor(std::log10(value)));
  return std::round(value * scale) / scale;
}

Status check(const PoolEntry& entry) {
  if (const auto address = parse_address(entry.ip); !address.ok()) return address.status();
  const auto positive = [](double value) { return std::isfinite(value) && value > 0; };
  if (!positive(entry.ram_gb)) return invalid("ram must be a positive number of GB, not ", entry.ram_gb);
  if (!positive(entry.bandwidth_mbps)) {
    return invalid("bandwidth must be a positive number of Mbps, not ", entry.bandwidth_mbps);
  }
  if (entry.compute_gflops && !positive(*entry.compute_gflops)) {
    return invalid("compute must be a positive number of GFLOP/s, not ", *entry.compute_gflops);
  }
  if (entry.latency_ms && !positive(*entry.latency_ms)) {
    return invalid("latency must be a positive number of ms, not ", *entry.latency_ms);
  }
  return {};
}

// Only what must hold for an entry to be found and added: the rest of the file is its reader's to judge.
Status check(const ordered_json& pool, std::string_view what) {
  if (!pool.is_object()) return corrupt(what, ": expected an object with the keys \"0\", \"1\" and so on");
  for (std::size_t i = 0; i < pool.size(); ++i) {
    const auto found = pool.find(std::to_string(i));
    if (found == pool.end()) {
      return corrupt(what, ": expected the keys \"0\" to \"", pool.size() - 1, "\", but \"", i, "\" is missing");
    }
    if (!found->is_object()) return corrupt(what, ": ", i, ": expected an object with IP and benchmarks");
    const auto ip = found->find("IP");
    if (ip == found->end() || !ip->is_string()) return corrupt(what, ": ", i, ".IP: expected \"host:port\"");
    const auto benchmarks = found->find("benchmarks");
    if (benchmarks == found->end() || !benchmarks->is_object()) {
      return corrupt(what, ": ", i, ".benchmarks: expected an object with ram and bandwidth");
    }
  }
  return {};
}

// nlohmann keeps the last of two equal keys without a word; writing the file anew would then lose an entry.
Result<ordered_json> parse_pool(std::string_view text, std::string_view what) {
  if (const auto value = parse_json(text, what); !value.ok()) return value.status();
  std::optional<std::string> repeated;
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int, ordered_json::parse_event_t event, ordered_json& value) {
    if (event == ordered_json::parse_event_t::object_start) keys.emplace_back();
    if (event == ordered_json::parse_event_t::object_end) keys.pop_back();
    if (event == ordered_json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      repeated = value.get<std::string>();
    }
    return true;
  };
  ordered_json pool = ordered_json::parse(text, watch, /*allow_exceptions=*/false);
  if (repeated) return corrupt(what, ": the key \"", printable(*repeated), "\" stands twice in one object");
  if (Status status = check(pool, what); !status.ok()) return status;
  return pool;
}

}  // namespace

ordered_json to_json(const PoolEntry& entry) {
  ordered_json benchmarks = {{"ram", rounded(entry.ram_gb)}, {"bandwidth", rounded(entry.bandwidth_mbps)}};
  if (entry.compute_gflops) benchmarks["compute"] = rounded(*entry.compute_gflops);
  if (entry.latency_ms) benchmarks["latency"] = rounded(*entry.latency_ms);
  return {{"IP", entry.ip}, {"benchmarks", std::move(benchmarks)}};
}

Result<PoolWithEntry> with_entry(std::optional<std::string_view> pool, const PoolEntry& entry, std::string_view what) {
  if (Status status = check(entry); !status.ok()) return status;
  PoolWithEntry result{ordered_json::object()};
  if (pool) {
    auto parsed = parse_pool(*pool, what);
    if (!parsed.ok()) return parsed.status();
    result.pool = *std::move(parsed);
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

}  // namespace ravnest
