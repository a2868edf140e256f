// transport_mixed_load [SECONDS]: three endpoints over TLS talk in all priorities while their connections are cut every
// few seconds (default 600 s). Every 30 s it lets all messages arrive and prints resident memory; ends with 1 where
// that grows by more than 2 MB in the second half, or where a message is lost, doubled, reordered or changed.
#include <malloc.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "ravnest/base/mutex.h"
#include "ravnest/transport/tcp/testing/nodes.h"
#include "ravnest/transport/testing/messages.h"
#include "ravnest/transport/testing/resident.h"
#include "relay/relay.h"

using namespace ravnest;
using namespace ravnest::transport;

namespace {

constexpr std::array<const char*, 3> kNames{"a", "b", "c"};
constexpr std::uint64_t kLaneStep = std::uint64_t{1} << 40;
constexpr std::uint64_t kMostGrowth = 2 << 20;

// What the threads of the load have in common. They wait for each other, never for a time to pass.
class Load {
 public:
  explicit Load(std::size_t senders) : senders_(senders) {}

  template <class... Ts>
  void violated(const Ts&... parts) {
    std::printf("transport_mixed_load: %s\n", text(parts...).c_str());
    const MutexLock lock(mutex_);
    failed_ = ending_ = true;
    changed_.notify_all();
  }
  void end() {
    const MutexLock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  bool failed() const {
    const MutexLock lock(mutex_);
    return failed_;
  }

  // For a sender, before each message: waits while all are to rest; false at the end.
  bool may_send() {
    const MutexLock lock(mutex_);
    if (resting_) {
      ++parked_;
      changed_.notify_all();
      changed_.wait(mutex_, [&]() RAVNEST_REQUIRES(mutex_) { return !resting_ || ending_; });
      --parked_;
    }
    sent_ += ending_ ? 0 : 1;
    return !ending_;
  }
  void count_arrived() {
    const MutexLock lock(mutex_);
    ++arrived_;
    if (resting_) changed_.notify_all();
  }

  // Until `time`, or an early end; whether it goes on.
  bool wait_until(TimePoint time) {
    const MutexLock lock(mutex_);
    return !changed_.wait_until(mutex_, time, [&]() RAVNEST_REQUIRES(mutex_) { return ending_; });
  }
  // Lets nobody send, and waits until all that was sent has arrived; whether that came before the deadline.
  bool rest(TimePoint deadline) {
    const MutexLock lock(mutex_);
    resting_ = true;
    return changed_.wait_until(mutex_, deadline, [&]() RAVNEST_REQUIRES(mutex_) {
      return ending_ || (parked_ == senders_ && arrived_ == sent_);
    });
  }
  void go_on() {
    const MutexLock lock(mutex_);
    resting_ = false;
    changed_.notify_all();
  }
  std::uint64_t arrived() const {
    const MutexLock lock(mutex_);
    return arrived_;
  }

 private:
  const std::size_t senders_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  bool ending_ RAVNEST_GUARDED_BY(mutex_) = false;
  bool failed_ RAVNEST_GUARDED_BY(mutex_) = false;
  bool resting_ RAVNEST_GUARDED_BY(mutex_) = false;
  std::size_t parked_ RAVNEST_GUARDED_BY(mutex_) = 0;
  std::uint64_t sent_ RAVNEST_GUARDED_BY(mutex_) = 0;
  std::uint64_t arrived_ RAVNEST_GUARDED_BY(mutex_) = 0;
};

void send_to_all(Load& load, Endpoint& endpoint, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::map<std::string, std::array<std::uint64_t, wire::kLanes>> next;
  while (load.may_send()) {
    std::string to = endpoint.name();
    while (to == endpoint.name()) to = kNames[random() % kNames.size()];
    const std::size_t lane = random() % wire::kLanes;
    const std::size_t size = random() % 50 == 0 ? random() % (4 << 20) : random() % 20'000;
    const Status accepted = endpoint.send(to, filled(lane * kLaneStep + next[to][lane]++, size),
                                          static_cast<Priority>(lane), {}, patiently());
    if (!accepted.ok()) return load.violated(endpoint.name(), " to ", to, ": ", accepted);
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
    load.count_arrived();
  }
}

using Relays = std::map<std::string, relay::Relay>;  // one in front of each node
using Endpoints = std::map<std::string, std::unique_ptr<Endpoint>>;

Endpoints open_all(const std::map<std::string, std::uint16_t>& ports, const Relays& relays) {
  const identity::Authority authority = tcp::new_authority();
  Endpoints endpoints;
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
  return endpoints;
}

// Cuts connections every few seconds, and every 30 s looks at the memory with everything at rest: what is under way
// differs from one moment to the next. What is compared is the least of each half, since what is kept for later comes
// and goes.
void disturb_and_watch(Load& load, Relays& relays, Duration length) {
  using std::chrono::seconds;
  const TimePoint start = SystemClock().now();
  std::mt19937_64 random(1);
  TimePoint print_at = start + seconds(1);
  TimePoint cut_at = start + seconds(3);
  std::uint64_t cuts = 0;
  std::uint64_t least_before = UINT64_MAX;
  std::uint64_t least_after = UINT64_MAX;
  while (load.wait_until(std::min({print_at, cut_at, start + length})) && SystemClock().now() < start + length) {
    if (SystemClock().now() >= cut_at) {
      std::next(relays.begin(), static_cast<std::ptrdiff_t>(random() % relays.size()))->second.cut();
      ++cuts;
      cut_at += seconds(2 + random() % 6);
    }
    if (SystemClock().now() < print_at) continue;
    print_at += seconds(30);
    if (!load.rest(patiently())) return load.violated("not all messages arrive");
    ::malloc_trim(0);
    const std::uint64_t now = resident_bytes();
    load.go_on();
    const Duration elapsed = SystemClock().now() - start;
    // The first look is before the pools have filled.
    if (elapsed > seconds(20)) {
      std::uint64_t& least = elapsed < length / 2 ? least_before : least_after;
      least = std::min(least, now);
    }
    std::printf("transport_mixed_load: %4.0f s: %.1f MB resident, %llu arrived, %llu cuts\n",
                std::chrono::duration<double>(elapsed).count(), static_cast<double>(now) / (1 << 20),
                static_cast<unsigned long long>(load.arrived()), static_cast<unsigned long long>(cuts));
    std::fflush(stdout);
  }
  const bool both_seen = least_before != UINT64_MAX && least_after != UINT64_MAX;
  if (both_seen && least_after > least_before + kMostGrowth) {
    load.violated("memory grew by ", (least_after - least_before) >> 10, " KB in the second half");
  }
}

}  // namespace

int main(int count, char** arguments) {
  const double seconds = count > 1 ? std::stod(arguments[1]) : 600;
  // Large blocks go back to the system at once, and threads share what is left: less comes and goes by chance.
  ::mallopt(M_MMAP_THRESHOLD, 128 << 10);
  ::mallopt(M_ARENA_MAX, 1);
  std::map<std::string, std::uint16_t> ports;
  for (const std::string name : kNames) ports[name] = free_port();
  Relays relays;
  for (const auto& [name, port] : ports) {
    relays.emplace(name, relay::Relay::open({"127.0.0.1", 0}, {"127.0.0.1", port}).value());
  }
  const Endpoints endpoints = open_all(ports, relays);

  Load load(endpoints.size());
  std::vector<std::thread> receivers;
  std::vector<std::thread> senders;
  for (const auto& [name, endpoint] : endpoints) {
    receivers.emplace_back([&load, &each = *endpoint] { receive(load, each); });
    senders.emplace_back([&load, &each = *endpoint, seed = senders.size()] { send_to_all(load, each, seed); });
  }
  disturb_and_watch(load, relays, std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
  load.end();
  for (std::thread& sender : senders) sender.join();
  for (const auto& [name, endpoint] : endpoints) (void)endpoint->close(patiently());
  for (std::thread& receiver : receivers) receiver.join();
  std::printf("transport_mixed_load: %s\n",
              load.failed() ? "FAILED" : "memory is bounded and every message arrived in order");
  return load.failed() ? 1 : 0;
}
