#include "ravnest/transport/tcp/testing/faults.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "ravnest/base/mutex.h"
#include "ravnest/transport/tcp/testing/child.h"
#include "ravnest/transport/tcp/testing/nodes.h"
#include "ravnest/transport/testing/messages.h"
#include "relay/relay.h"

namespace ravnest::transport::tcp {
namespace {

Options plain_options(const std::string& name, std::uint16_t port, const Peer& peer) {
  Options options;
  options.name = name;
  options.plan = "test";
  options.software = "0";
  options.listen = {"127.0.0.1", port};
  options.peers = {peer};
  options.insecure = Insecure::kOnLoopback;
  options.log = no_log();
  return options;
}

// What several threads tell of one run.
class Checker {
 public:
  template <class... Ts>
  void violated(const Ts&... parts) {
    const MutexLock lock(mutex_);
    if (violation_.empty()) violation_ = text(parts...);
    broken = true;
  }
  std::string violation() const {
    const MutexLock lock(mutex_);
    return violation_;
  }
  std::atomic<bool> broken = false;

 private:
  mutable Mutex mutex_;
  std::string violation_ RAVNEST_GUARDED_BY(mutex_);
};

// -- cuts

// The number carries the priority: the order is checked lane by lane.
constexpr std::uint64_t kLaneStep = std::uint64_t{1} << 40;

struct CutRun {
  Checker checker;
  Mutex mutex;
  ConditionVariable arrival;  // of a message
  std::atomic<bool> enough = false;
  std::atomic<std::uint64_t> accepted = 0;
  std::atomic<std::uint64_t> completed = 0;
  std::atomic<std::uint64_t> failed = 0;
  std::atomic<std::uint64_t> arrived = 0;
  std::atomic<std::uint64_t> losses = 0;
};

void send_all_the_time(CutRun& run, Endpoint& from, const std::string& to, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::array<std::uint64_t, wire::kLanes> next{};
  while (!run.enough && !run.checker.broken) {
    const std::size_t lane = random() % wire::kLanes;
    const std::size_t size = random() % 4 == 0 ? random() % 300'000 : random() % 3000;
    const Status accepted = from.send(
        to, filled(lane * kLaneStep + next[lane], size), static_cast<Priority>(lane),
        [&run](const Status& status) {
          ++run.completed;
          run.failed += status.ok() ? 0 : 1;
        },
        patiently());
    if (!accepted.ok()) return run.checker.violated("a message to ", to, " is refused: ", accepted);
    ++next[lane];
    ++run.accepted;
  }
}

void receive_all(CutRun& run, Endpoint& at) {
  std::array<std::uint64_t, wire::kLanes> next{};
  for (;;) {
    const auto event = at.receive(in_seconds(0.1));
    if (!event.ok() && event.status().code() == Code::kCancelled) return;
    if (!event.ok()) continue;
    if (const auto* change = std::get_if<PeerChange>(&event->what)) {
      if (change->state == PeerState::kLost) {
        ++run.losses;
        run.checker.violated(at.name(), " lost ", event->peer, ": ", change->reason);
      }
      continue;
    }
    const auto& message = std::get<wire::Message>(event->what);
    const std::uint64_t number = number_of(message);
    std::uint64_t& expected = next[number / kLaneStep % wire::kLanes];
    if (number % kLaneStep != expected) {
      run.checker.violated(at.name(), " got ", number % kLaneStep, " of lane ", number / kLaneStep, " instead of ",
                           expected);
    }
    if (!is_intact(message)) run.checker.violated(at.name(), " got a message that was changed");
    ++expected;
    ++run.arrived;
    run.arrival.notify_one();
  }
}

// -- kills

class EchoRun {
 public:
  EchoRun(std::uint64_t seed, std::string program) : random_(seed), program_(std::move(program)) {
    auto endpoint = open(plain_options("a", own_port_, {"b", {"127.0.0.1", node_port_}}));
    EXPECT_TRUE(endpoint.ok()) << endpoint.status();
    endpoint_ = std::move(endpoint).value();
  }

  FaultsOutcome run(std::uint64_t kills) {
    start();
    while (outcome_.faults < kills && outcome_.violation.empty()) {
      talk(random_() % 40);
      node_.reset();  // in the middle of whatever is under way
      ++outcome_.faults;
      if (random_() % 2 == 0) say_something();
      start();
    }
    talk(20);
    settle();
    const auto statistics = endpoint_->statistics("b");
    outcome_.connections = statistics->connections;
    outcome_.failed = failed_;
    endpoint_.reset();
    if (outcome_.violation.empty() && completed_ != accepted_)
      violated(accepted_ - completed_, " messages never completed");
    return outcome_;
  }

 private:
  template <class... Ts>
  void violated(const Ts&... parts) {
    if (outcome_.violation.empty()) outcome_.violation = text(parts...);
  }

  void start() {
    node_.emplace(std::vector<std::string>{program_, "b", std::to_string(node_port_), "a", std::to_string(own_port_)});
    if (!node_->runs()) violated("cannot start ", program_);
  }

  // Sends until one is accepted: while the node is lost none is.
  void say_something() {
    const std::size_t size = random_() % 5 == 0 ? random_() % 500'000 : random_() % 2000;
    const Status accepted = endpoint_->send(
        "b", filled(next_, size), Priority::kNormal,
        [this](const Status& status) {
          ++completed_;
          failed_ += status.ok() ? 0 : 1;
        },
        patiently());
    if (accepted.ok()) {
      ++next_;
      ++accepted_;
      lost_since_said_ = false;
    } else if (accepted.code() != Code::kUnavailable) {
      violated("a message is refused: ", accepted);
    }
  }

  // Until that many echoes have come.
  void talk(std::uint64_t echoes) {
    const TimePoint deadline = patiently();
    const std::uint64_t goal = outcome_.arrived + echoes;
    while (outcome_.arrived < goal && outcome_.violation.empty()) {
      if (SystemClock().now() > deadline) return violated("no echo came for a minute");
      for (std::uint64_t i = random_() % 4; i > 0; --i) say_something();
      listen(in_seconds(0.01));
    }
  }

  // Until the echo of the last message has come. What was said before a loss was noticed may have gone with it.
  void settle() {
    const TimePoint deadline = patiently();
    while (expected_ < next_ && outcome_.violation.empty()) {
      if (lost_since_said_) say_something();
      if (SystemClock().now() > deadline) return violated("the last messages were not echoed");
      listen(in_seconds(0.1));
    }
  }

  void listen(TimePoint deadline) {
    const auto event = endpoint_->receive(deadline);
    if (!event.ok()) return;
    if (const auto* change = std::get_if<PeerChange>(&event->what)) {
      if (change->state == PeerState::kLost) {
        ++outcome_.losses;
        lost_since_echo_ = true;
        lost_since_said_ = true;
      }
      return;
    }
    const auto& message = std::get<wire::Message>(event->what);
    const std::uint64_t number = number_of(message);
    if (number < expected_) return violated("echo ", number, " came after ", expected_ - 1);
    if (number > expected_ && !lost_since_echo_) {
      return violated("echo ", number, " came after ", expected_ - 1, ", and no loss was reported");
    }
    if (!is_intact(message)) return violated("echo ", number, " was changed");
    expected_ = number + 1;
    lost_since_echo_ = false;
    ++outcome_.arrived;
  }

  std::mt19937_64 random_;
  const std::string program_;
  const std::uint16_t own_port_ = free_port();
  const std::uint16_t node_port_ = free_port();
  FaultsOutcome outcome_;
  std::uint64_t next_ = 0;
  std::uint64_t expected_ = 0;
  bool lost_since_echo_ = false;
  bool lost_since_said_ = false;
  std::uint64_t accepted_ = 0;
  std::atomic<std::uint64_t> completed_ = 0;
  std::atomic<std::uint64_t> failed_ = 0;
  std::unique_ptr<Endpoint> endpoint_;
  std::optional<Child> node_;
};

}  // namespace

FaultsOutcome survive_cuts(std::uint64_t cuts, std::uint64_t seed, bool secure) {
  const identity::Authority authority = new_authority();
  const std::uint16_t port_a = free_port();
  const std::uint16_t port_b = free_port();
  const relay::Profile cutting{.cut_min_bytes = 1000, .cut_max_bytes = 300'000, .seed = seed};
  auto to_a = relay::Relay::open({"127.0.0.1", 0}, {"127.0.0.1", port_a}, cutting);
  auto to_b = relay::Relay::open({"127.0.0.1", 0}, {"127.0.0.1", port_b}, cutting);
  const auto open_endpoint = [&](const std::string& name, std::uint16_t port, const Peer& peer) {
    Options options = plain_options(name, port, peer);
    options.session.chunk_bytes = 20'000;
    options.session.window_bytes = options.session.queue_bytes = 1 << 20;
    if (secure) {
      options.insecure = Insecure::kNo;
      options.identity = identity_of(authority, name);
    }
    auto endpoint = open(std::move(options));
    EXPECT_TRUE(endpoint.ok()) << endpoint.status();
    return std::move(endpoint).value();
  };
  auto a = open_endpoint("a", port_a, {"b", to_b->address()});
  auto b = open_endpoint("b", port_b, {"a", to_a->address()});

  CutRun run;
  std::vector<std::thread> receivers;
  receivers.emplace_back([&] { receive_all(run, *a); });
  receivers.emplace_back([&] { receive_all(run, *b); });
  std::vector<std::thread> senders;
  senders.emplace_back([&] { send_all_the_time(run, *a, "b", seed + 1); });
  senders.emplace_back([&] { send_all_the_time(run, *b, "a", seed + 2); });

  FaultsOutcome outcome;
  TimePoint deadline = patiently();
  const auto wait_for = [&](auto&& reached, std::string_view what) {
    std::uint64_t before = 0;
    while (!reached() && !run.checker.broken) {
      // As long as something arrives it is only slow.
      if (const std::uint64_t arrived = run.arrived; arrived != before) deadline = patiently();
      before = run.arrived;
      if (SystemClock().now() > deadline) run.checker.violated("nothing arrived for a minute while waiting for ", what);
      const MutexLock lock(run.mutex);
      run.arrival.wait_until(run.mutex, in_seconds(0.1));
    }
  };
  const auto made = [&] { return to_a->statistics().cuts + to_b->statistics().cuts; };
  wait_for([&] { return made() >= cuts; }, "cuts");
  outcome.faults = made();
  (void)to_a->set_profile({});
  (void)to_b->set_profile({});
  run.enough = true;
  for (std::thread& sender : senders) sender.join();
  wait_for([&] { return run.completed == run.accepted && run.arrived == run.accepted; }, "the last messages");
  outcome.connections = a->statistics("b")->connections;
  (void)a->close(in_seconds(1));
  (void)b->close(in_seconds(1));
  for (std::thread& receiver : receivers) receiver.join();
  outcome.violation = run.checker.violation();
  if (outcome.violation.empty() && run.failed > 0) outcome.violation = text(run.failed.load(), " messages failed");
  outcome.arrived = run.arrived;
  outcome.failed = run.failed;
  outcome.losses = run.losses;
  return outcome;
}

FaultsOutcome survive_kills(std::uint64_t kills, std::uint64_t seed, const std::string& echo_node) {
  return EchoRun(seed, echo_node).run(kills);
}

}  // namespace ravnest::transport::tcp
