// The transport beside raw sockets and gRPC, in one run: prints lines of
//   name value unit ratio-to-peer target
// Both ends are threads of this process, so that CPU seconds count both. Ratios are medians over repeats in which ours
// and the peer take turns. Loopback; nothing else should run meanwhile.
// transport_benchmark [REPEATS [rtt|idle|plain|tls|inproc|grpc|grpc_tls]]
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "pair.h"
#include "ravnest/base/clock.h"
#include "ravnest/base/mutex.h"

namespace {

using namespace ravnest::benchmark;

constexpr std::size_t kMebi = 1 << 20;
constexpr double kGiga = 1e9;

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

struct Rates {
  double gigabytes_per_s = 0;
  double cpu_s_per_gigabyte = 0;
};

Rates measure_stream(Pair& pair, std::size_t size) {
  const int count = static_cast<int>(std::max<std::size_t>((768 * kMebi) / size, 4));
  pair.stream(size, 2);
  const double cpu = cpu_seconds();
  const double start = now();
  pair.stream(size, count);
  const double gigabytes = static_cast<double>(size) * count / kGiga;
  return {gigabytes / (now() - start), (cpu_seconds() - cpu) / gigabytes};
}

double measure_round_trip_us(Pair& pair, std::size_t size) {
  for (int i = 0; i < 50; ++i) pair.round_trip(size);
  std::vector<double> seconds;
  for (int i = 0; i < 1000; ++i) {
    const double start = now();
    pair.round_trip(size);
    seconds.push_back(now() - start);
  }
  return median(seconds) * 1e6;
}

void print(const std::string& name, double value, const char* unit, double ratio, const char* target) {
  std::printf("%-28s %9.3f %-5s %6.3f %s\n", name.c_str(), value, unit, ratio, target);
  std::fflush(stdout);
}

struct Targets {
  const char* stream;
  const char* cpu;
};

// Ours, measured in turns with the peer.
void compare(const std::string& name, Pair& ours, Pair& peer, int repeats, const Targets& targets) {
  for (const std::size_t mebi : {1, 4, 16, 64}) {
    std::vector<double> rates;
    std::vector<double> rate_ratios;
    std::vector<double> costs;
    std::vector<double> cost_ratios;
    for (int i = 0; i < repeats; ++i) {
      const Rates theirs = measure_stream(peer, mebi * kMebi);
      const Rates own = measure_stream(ours, mebi * kMebi);
      rates.push_back(own.gigabytes_per_s);
      rate_ratios.push_back(own.gigabytes_per_s / theirs.gigabytes_per_s);
      costs.push_back(own.cpu_s_per_gigabyte);
      cost_ratios.push_back(own.cpu_s_per_gigabyte / theirs.cpu_s_per_gigabyte);
    }
    const std::string suffix = "_" + std::to_string(mebi) + "MiB";
    print(name + suffix, median(rates), "GB/s", median(rate_ratios), targets.stream);
    print(name + suffix + "_cpu", median(costs), "s/GB", median(cost_ratios), targets.cpu);
  }
}

void compare_round_trips(const std::string& name, const std::function<std::unique_ptr<Pair>()>& ours,
                         const std::function<std::unique_ptr<Pair>()>& peer, int repeats, const char* target) {
  std::vector<double> values;
  std::vector<double> ratios;
  for (int i = 0; i < repeats; ++i) {
    const double theirs = measure_round_trip_us(*peer(), 64 << 10);
    const double own = measure_round_trip_us(*ours(), 64 << 10);
    values.push_back(own);
    ratios.push_back(own / theirs);
  }
  print(name + "_rtt_64KiB", median(values), "us", median(ratios), target);
}

// Two connected endpoints that have nothing to say.
void measure_idle(const std::string& name, Pair& pair) {
  pair.round_trip(1);
  ravnest::Mutex mutex;
  const ravnest::MutexLock lock(mutex);
  ravnest::ConditionVariable never;
  const double cpu = cpu_seconds();
  const double start = now();
  while (now() - start < 5) never.wait_until(mutex, ravnest::SystemClock().now() + std::chrono::seconds(5));
  print(name + "_idle", 100 * (cpu_seconds() - cpu) / (now() - start) / 2, "%", 0, "<=0.5");
}

}  // namespace

int main(int count, char** arguments) {
  const int repeats = count > 1 ? std::atoi(arguments[1]) : 5;
  const std::string only = count > 2 ? arguments[2] : "";
  const auto wanted = [&](const std::string& name) { return only.empty() || only == name; };
  using Make = std::unique_ptr<Pair> (*)();
  struct Contestant {
    std::string name;
    Make make;
    Make peer;
    const char* round_trip;
    Targets targets;
  };
  std::vector<Contestant> contestants = {{"plain", ravnest_plain, raw_tcp, "<=2", {">=0.8", "<=1.5"}},
                                         {"tls", ravnest_tls, raw_tls, "-", {">=0.6", "-"}},
                                         {"inproc", ravnest_inproc, raw_tcp, "-", {"-", "-"}}};
  if (grpc_stream() != nullptr) {
    contestants.push_back({"grpc", grpc_stream, raw_tcp, "-", {"-", "-"}});
    contestants.push_back({"grpc_tls", grpc_tls, raw_tls, "-", {"-", "-"}});
  }
  std::printf("# name value unit ratio-to-peer target; peers: raw TCP, and with OpenSSL for tls; %d repeats\n",
              repeats);
  for (const Contestant& each : contestants) {
    if (wanted("rtt")) compare_round_trips(each.name, each.make, each.peer, repeats, each.round_trip);
  }
  for (const Contestant& each : contestants) {
    if (wanted(each.name)) compare(each.name, *each.make(), *each.peer(), repeats, each.targets);
  }
  if (grpc_stream() == nullptr) std::puts("# grpc: not there when this was built (Debian: libgrpc++-dev)");
  if (wanted("idle")) {
    measure_idle("plain", *ravnest_plain());
    measure_idle("tls", *ravnest_tls());
  }
}
