// transport_mixed_load [SECONDS]: three endpoints over TLS talk in all priorities while their connections are cut every
// few seconds (default 600 s). Every 30 s it lets all messages arrive and prints resident memory; ends with 1 where
// that grows by more than 2 MB in the second half, or where a message is lost, doubled, reordered or changed.
#include <malloc.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "ravnest/transport/resident.h"
#include "ravnest/transport/tcp/testing.h"
#include "ravnest/transport/testing.h"
#include "relay/relay.h"

using namespace ravnest;
using namespace ravnest::transport;

namespace {

constexpr std::array<const char*, 3> kNames{"a", "b", "c"};
constexpr std::uint64_t kLaneStep = std::uint64_t{1} << 40;
constexpr std::uint64_t kMostGrowth = 2 << 20;

struct Load {
  std::atomic<bool> ending = false;
  std::atomic<bool> failed = false;
  std::atomic<bool> pausing = false;
  std::atomic<std::uint64_t> sent = 0;
  std::atomic<std::uint64_t> arrived = 0;

  template <class... Ts>
  void violated(const Ts&... parts) {
    std::printf("transport_mixed_load: %s\n", text(parts...).c_str());
    failed = ending = true;
  }
};

void send_to_all(Load& load, Endpoint& endpoint, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::map<std::string, std::array<std::uint64_t, wire::kLanes>> next;
  while (!load.ending) {
    if (load.pausing) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      continue;
    }
    const std::string to = kNames[random() % kNames.size()];
    if (to == endpoint.name()) continue;
    const std::size_t lane = random() % wire::kLanes;
    const std::size_t size = random() % 50 == 0 ? random() % (4 << 20) : random() % 20'000;
    const Status accepted = endpoint.send(to, filled(lane * kLaneStep + next[to][lane]++, size),
                                          static_cast<Priority>(lane), {}, patiently());
    if (!accepted.ok()) return load.violated(endpoint.name(), " to ", to, ": ", accepted);
    ++load.sent;
  }
}

void receive(Load& load, Endpoint& endpoint) {
  std::map<std::string, std::array<std::uint64_t, wire::kLanes>> next;
  for (;;) {
    const auto event = endpoint.receive(in_seconds(1));
    if (event.status().code() == Code::kCancelled) return;
    if (!event.ok()) continue;
    if (const auto* change = std::get_if<PeerChange>(&event->what)) {
      if (change->state == PeerState::kLost)
        load.violated(endpoint.name(), " lost ", event->peer, ": ", change->reason);
      continue;
    }
    const auto& message = std::get<wire::Message>(event->what);
    const std::uint64_t number = number_of(message);
    const std::uint64_t expected = next[event->peer][number / kLaneStep]++;
    if (number % kLaneStep != expected) load.violated("message ", number % kLaneStep, " instead of ", expected);
    if (!is_intact(message)) load.violated("a message was changed");
    ++load.arrived;
  }
}

}  // namespace

int main(int count, char** arguments) {
  const double seconds = count > 1 ? std::stod(arguments[1]) : 600;
  // Large blocks go back to the system at once, and threads share what is left: less comes and goes by chance.
  ::mallopt(M_MMAP_THRESHOLD, 128 << 10);
  ::mallopt(M_ARENA_MAX, 1);
  const plan::Authority authority = tcp::new_authority();
  std::map<std::string, std::uint16_t> ports;
  for (const std::string name : kNames) ports[name] = tcp::free_port();
  std::map<std::string, relay::Relay> relays;  // one in front of each
  for (const auto& [name, port] : ports) {
    relays.emplace(name, relay::Relay::open({"127.0.0.1", 0}, {"127.0.0.1", port}).value());
  }
  std::map<std::string, std::unique_ptr<Endpoint>> endpoints;
  for (const auto& [name, port] : ports) {
    tcp::Options options;
    options.name = name;
    options.plan = "test";
    options.software = "0";
    options.listen = {"127.0.0.1", port};
    options.identity = tcp::identity_of(authority, name);
    options.log = tcp::no_log();
    options.session.window_bytes = options.session.queue_bytes = 1 << 20;
    for (const auto& [peer, relay] : relays) {
      if (peer != name) options.peers.push_back({peer, relay.address()});
    }
    endpoints[name] = tcp::open(std::move(options)).value();
  }

  Load load;
  std::vector<std::thread> receivers;
  std::vector<std::thread> senders;
  for (auto& [name, endpoint] : endpoints) {
    receivers.emplace_back([&load, &each = *endpoint] { receive(load, each); });
    senders.emplace_back([&load, &each = *endpoint, seed = senders.size()] { send_to_all(load, each, seed); });
  }
  const auto start = SystemClock().now();
  const auto elapsed = [&] { return std::chrono::duration<double>(SystemClock().now() - start).count(); };
  std::mt19937_64 random(1);
  double print_at = 0;
  double cut_at = 3;
  std::uint64_t cuts = 0;
  // The least of each half, since what is kept for later comes on top and comes and goes; the first is before all that.
  std::uint64_t least_before = UINT64_MAX;
  std::uint64_t least_after = UINT64_MAX;
  while (elapsed() < seconds && !load.ending) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (elapsed() >= cut_at) {
      std::next(relays.begin(), static_cast<std::ptrdiff_t>(random() % 3))->second.cut();
      ++cuts;
      cut_at += 2 + static_cast<double>(random() % 6);
    }
    if (elapsed() < print_at) continue;
    print_at += 30;
    // With everything at rest: what is under way differs from one moment to the next.
    load.pausing = true;
    const TimePoint deadline = patiently();
    std::uint64_t sent = 0;
    do {
      sent = load.sent;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      if (SystemClock().now() > deadline) load.violated("not all messages arrive");
    } while (!load.ending && (sent != load.sent || load.arrived != sent));
    ::malloc_trim(0);
    const std::uint64_t now = resident_bytes();
    load.pausing = false;
    if (elapsed() > 20) {
      std::uint64_t& least = elapsed() < seconds / 2 ? least_before : least_after;
      least = std::min(least, now);
    }
    std::printf("transport_mixed_load: %4.0f s: %.1f MB resident, %llu sent, %llu arrived, %llu cuts\n", elapsed(),
                static_cast<double>(now) / (1 << 20), static_cast<unsigned long long>(load.sent),
                static_cast<unsigned long long>(load.arrived), static_cast<unsigned long long>(cuts));
    std::fflush(stdout);
  }
  load.ending = true;
  for (std::thread& sender : senders) sender.join();
  for (auto& [name, endpoint] : endpoints) (void)endpoint->close(patiently());
  for (std::thread& receiver : receivers) receiver.join();
  const bool both_seen = least_before != UINT64_MAX && least_after != UINT64_MAX;
  if (both_seen && least_after > least_before + kMostGrowth) {
    load.violated("memory grew by ", (least_after - least_before) >> 10, " KB in the second half");
  }
  std::printf("transport_mixed_load: %s\n",
              load.failed ? "FAILED" : "memory is bounded and every message arrived in order");
  return load.failed ? 1 : 0;
}
