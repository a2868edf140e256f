// One member of all-reduces over loopback, for benchmarks/allreduce.py.
//
//     allreduce_member SELF FLOATS CHUNK_BYTES PORT...
//
// There is a port for each member. For each line on standard input, a number of all-reduces, it makes them together
// with the others, all beginning at once, and prints the seconds that they took and the bytes that it wrote.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "ravnest/collective/group.h"
#include "ravnest/transport/tcp/endpoint.h"

namespace {

using namespace ravnest;  // NOLINT(google-build-using-namespace)

TimePoint patiently() { return SystemClock().now() + std::chrono::seconds(120); }

void require(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}

std::uint64_t bytes_sent(const transport::Endpoint& endpoint, const std::vector<std::string>& names) {
  std::uint64_t bytes = 0;
  for (const std::string& name : names) {
    if (name != endpoint.name()) bytes += endpoint.statistics(name)->bytes_sent;
  }
  return bytes;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 5) return 2;
  const auto self = static_cast<std::size_t>(std::atoi(arguments[1]));
  std::vector<float> values(static_cast<std::size_t>(std::atoll(arguments[2])), 1);
  const auto chunk_bytes = static_cast<std::size_t>(std::atoll(arguments[3]));
  transport::tcp::Options options;
  std::vector<std::string> names;
  for (int i = 4; i < count; ++i) {
    names.push_back("member_" + std::to_string(i - 4));
    const Address address{"127.0.0.1", static_cast<std::uint16_t>(std::atoi(arguments[i]))};
    if (names.size() - 1 == self) {
      options.listen = address;
    } else {
      options.peers.push_back({names.back(), address});
    }
  }
  options.name = names[self];
  options.plan = "bench";
  options.insecure = transport::tcp::Insecure::kOnLoopback;
  auto endpoint = transport::tcp::open(std::move(options));
  require(endpoint.status());
  collective::Group group(**endpoint, names, self,
                          {.chunk_bytes = chunk_bytes > 0 ? chunk_bytes : collective::kChunkBytes});

  require(group.all_reduce(values, patiently()));
  for (const float value : values) {
    if (value != static_cast<float>(names.size())) require(internal("the sum is ", value));
  }
  std::vector<float> signal(names.size());
  for (int repeats = 0; std::cin >> repeats;) {
    require(group.all_reduce(signal, patiently()));
    const std::uint64_t before = bytes_sent(**endpoint, names);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) require(group.all_reduce(values, patiently()));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    // The last chunks may not have been written yet: they have when the others have got them.
    require(group.all_reduce(signal, patiently()));
    std::printf("%.9f %llu\n", seconds.count(),
                static_cast<unsigned long long>(bytes_sent(**endpoint, names) - before));
    std::fflush(stdout);
  }
  require((*endpoint)->close(patiently()));
}
