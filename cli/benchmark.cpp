// `ravnest benchmark`: what this machine can do, as its entry of the pool file.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

#include "commands.h"
#include "compute_rate.h"
#include "process_share.h"
#include "ranges.h"
#include "ravnest/base/log.h"
#include "ravnest/base/status.h"
#include "ravnest/machine/link_client.h"
#include "ravnest/machine/link_server.h"
#include "ravnest/machine/memory.h"
#include "ravnest/net/address.h"
#include "ravnest/net/socket.h"
#include "ravnest/plan/pool/pool_entry.h"
#include "stop_signals.h"

namespace ravnest::cli {
namespace {

constexpr const char* kFooter =
    "  ram        memory that a node may use, in GB (10^9 bytes): what is free, or what the control group leaves; "
    "with\n"
    "             --device cuda the free memory of the GPU\n"
    "  process    of that, what a node takes without a model, in GB: Python with torch and ravnest where they stand\n"
    "             beside this program, else this program\n"
    "  compute    GFLOP/s in fp32: the geometric mean of matrix products and of 3x3 convolutions (forward), each the\n"
    "             median of about half a second of runs. A model is some of both; the mean follows the time of a\n"
    "             training step better than the faster of the two, and is not ruled by the slower one\n"
    "  bandwidth  Mbps (10^6 bits) over TCP to a peer, the lower of the two directions\n"
    "  latency    ms, half of the median round trip to the peer\n"
    "\n"
    "Examples:\n"
    "  ravnest benchmark                                                     print what this machine has\n"
    "  ravnest benchmark --serve 9000                                        on the peer: be measured against, 10 min\n"
    "  ravnest benchmark --peer 10.0.0.1:9000                                here: measure the link as well\n"
    "  ravnest benchmark --peer 10.0.0.1:9000 --write --ip 10.0.0.2:8080     and write the entry of this node\n"
    "  ravnest benchmark --bandwidth 100 --write pool.json --ip 10.0.0.2:8080\n"
    "\n"
    "A serving side sends zeros and discards what it gets, to anyone who reaches the port, one client at a time; it "
    "keeps\n"
    "nothing and ends by itself.";

constexpr const char* kDefaultFile = "node_data/node_configs.json";

struct BenchmarkOptions {
  std::string device = "cpu";
  int threads = 0;
  std::string peer;
  double bandwidth_mbps = 0;
  double seconds = 2;
  std::string write;
  std::string ip;
  std::uint16_t serve = 0;
  std::string bind;
  double serve_seconds = 600;
};

Duration duration(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// One line of the table, with four digits that mean something.
void row(const char* name, double value, const char* unit, const std::string& remark) {
  const int decimals = value > 0 ? std::clamp(3 - static_cast<int>(std::floor(std::log10(value))), 0, 6) : 0;
  std::printf("%-12s %12.*f %-8s  %s\n", name, decimals, value, unit, remark.c_str());
  std::fflush(stdout);
}

Status serve(const BenchmarkOptions& options) {
  const StopSignals signals;
  auto server = LinkServer::open({.host = options.bind, .port = options.serve});
  if (!server.ok()) return server.status();
  std::cout << "serving link measurements on " << (options.bind.empty() ? "every address" : options.bind) << ", port "
            << server->port() << ", for " << options.serve_seconds << " s; Ctrl-C ends it" << std::endl;
  const Status ended =
      server->serve(Wait::of(duration(options.serve_seconds), signals.descriptor()), Logger("benchmark"));
  signals.take();
  return ended.code() == Code::kCancelled ? Status() : ended;
}

Result<double> measure_ram_gb(const BenchmarkOptions& options) {
  if (options.device != "cpu") {
    const auto memory = device_memory(options.device);
    if (!memory.ok()) return memory.status();
    const double gb = static_cast<double>(memory->free_bytes) / 1e9;
    row("memory", gb, "GB", text("of ", static_cast<double>(memory->total_bytes) / 1e9, " GB on ", options.device));
    return gb;
  }
  const auto memory = usable_memory();
  if (!memory.ok()) return memory.status();
  const double gb = static_cast<double>(memory->bytes) / 1e9;
  row("memory", gb, "GB",
      text("of ", static_cast<double>(memory->total_bytes) / 1e9, " GB; limited by ", memory->limited_by));
  return gb;
}

Result<double> measure_gflops(const BenchmarkOptions& options) {
  const auto rate = measure_compute({.device = options.device, .threads = options.threads});
  if (!rate.ok()) return rate.status();
  const std::string where =
      options.device == "cpu" ? text(rate->threads, rate->threads == 1 ? " thread" : " threads") : options.device;
  row("matmul", rate->matmul_gflops, "GFLOP/s", text("fp32, ", where));
  row("convolution", rate->convolution_gflops, "GFLOP/s", text("fp32, 3x3, forward, ", where));
  row("compute", rate->gflops(), "GFLOP/s", "the geometric mean of both");
  return rate->gflops();
}

// A GPU's memory is the model's alone: what the process takes is the host's.
Status measure_process_share(const BenchmarkOptions& options, plan::PoolEntry& entry) {
  entry.process_gb = 0;
  if (options.device != "cpu") return {};
  const auto share = measure_process();
  if (!share.ok()) return share.status();
  row("process", share->gb, "GB", text("of that, without a model: ", share->of));
  entry.process_gb = share->gb;
  return {};
}

Status measure_peer(const BenchmarkOptions& options, plan::PoolEntry& entry) {
  const StopSignals signals;
  const auto peer = parse_address(options.peer);
  if (!peer.ok()) return peer.status().with_context("--peer");
  const auto link = measure_link(*peer, {.stream = duration(options.seconds)}, signals.descriptor());
  if (!link.ok()) return link.status();
  row("up", link->up_mbps, "Mbps", text("from here to ", *peer));
  row("down", link->down_mbps, "Mbps", text("from ", *peer, " to here"));
  row("bandwidth", link->bandwidth_mbps(), "Mbps", "the lower of both");
  row("latency", link->latency_ms, "ms", "half of the median round trip");
  entry.bandwidth_mbps = link->bandwidth_mbps();
  entry.latency_ms = link->latency_ms;
  return {};
}

// What can be said before anything is measured, which takes seconds.
Status check(const BenchmarkOptions& options, bool writes) {
  if (!writes) return {};
  if (options.ip.empty())
    return invalid("--write needs --ip HOST:PORT, the address at which other nodes reach this one");
  if (const auto ip = parse_address(options.ip); !ip.ok()) return ip.status().with_context("--ip");
  if (options.peer.empty() && options.bandwidth_mbps == 0) {
    return invalid(
        "the pool file needs a bandwidth: measure it with --peer HOST:PORT (and ravnest benchmark --serve PORT "
        "there), or state it with --bandwidth MBPS");
  }
  return {};
}

Status measure(const BenchmarkOptions& options, bool writes) {
  if (Status status = check(options, writes); !status.ok()) return status;
  plan::PoolEntry entry{.ip = options.ip, .bandwidth_mbps = options.bandwidth_mbps};
  // The link first: a peer that is not there shows at once.
  if (!options.peer.empty()) {
    if (Status status = measure_peer(options, entry); !status.ok()) return status;
  }
  const auto ram = measure_ram_gb(options);
  if (!ram.ok()) return ram.status();
  const auto gflops = measure_gflops(options);
  if (!gflops.ok()) return gflops.status();
  entry.ram_gb = *ram;
  entry.compute_gflops = *gflops;
  if (const Status status = measure_process_share(options, entry); !status.ok()) return status;

  nlohmann::ordered_json shown = plan::to_json(entry);
  if (entry.ip.empty()) shown["IP"] = nullptr;
  if (entry.bandwidth_mbps == 0) shown["benchmarks"]["bandwidth"] = nullptr;
  std::cout << '\n' << shown.dump(2) << std::endl;
  if (!writes) return {};
  const auto written = plan::write_entry(options.write, entry);
  if (!written.ok()) return written.status();
  std::cout << (written->replaced ? "replaced entry \"" : "added entry \"") << written->number << "\" in "
            << options.write << std::endl;
  return {};
}

}  // namespace

void add_benchmark(CLI::App& app) {
  auto options = std::make_shared<BenchmarkOptions>();
  CLI::App* command = app.add_subcommand("benchmark", "Measure this machine for the pool file");
  command->footer(kFooter);
  command->add_option("--device", options->device, "What to measure: cpu, cuda, cuda:1")->capture_default_str();
  command->add_option("--threads", options->threads, "CPU threads; by default as many as torch takes")
      ->check(whole(1, 4096));
  auto* peer = command->add_option("--peer", options->peer, "HOST:PORT of a machine that runs benchmark --serve PORT");
  command->add_option("--seconds", options->seconds, "Time for each direction of the link")
      ->capture_default_str()
      ->check(between(0.1, 10.0));
  auto* bandwidth =
      command->add_option("--bandwidth", options->bandwidth_mbps, "Mbps, instead of measuring with --peer")
          ->check(above(0))
          ->excludes(peer);
  auto* write =
      command
          ->add_option("--write", options->write, text("Write the entry to this pool file, by default ", kDefaultFile))
          ->expected(0, 1)
          ->default_str(kDefaultFile);
  command->add_option("--ip", options->ip, "HOST:PORT at which the other nodes reach this one, for --write");
  auto* serve_option = command->add_option("--serve", options->serve, "Be the peer: serve measurements on this port")
                           ->check(whole<std::uint16_t>(1))
                           ->excludes(peer)
                           ->excludes(bandwidth)
                           ->excludes(write);
  command->add_option("--bind", options->bind, "With --serve: the address to listen on; by default every one")
      ->needs(serve_option);
  command->add_option("--for", options->serve_seconds, "With --serve: seconds to serve")
      ->capture_default_str()
      ->check(between(0.1, 86400.0))
      ->needs(serve_option);
  command->callback([options, write, serve_option] {
    require(serve_option->count() > 0 ? serve(*options) : measure(*options, write->count() > 0));
  });
}

}  // namespace ravnest::cli
