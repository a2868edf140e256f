#include "ravnest/transport/testing/simulation.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "ravnest/transport/inproc/network.h"
#include "ravnest/transport/testing/messages.h"

namespace ravnest::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kMostBytes = 6000;  // of one message's tensor
constexpr Duration kQuietTime = seconds(120);

// What became of one accepted message.
struct Sent {
  std::size_t from = 0;
  std::size_t to = 0;
  std::size_t lane = 0;
  int sender = 0;  // incarnations at the time of sending
  int receiver = 0;
  std::uint64_t losses_before = 0;  // of the peer, that the sender's application knew of
  int completions = 0;
  Status status;
  bool arrived = false;
};

struct Node {
  std::string name;
  SessionOptions options;
  std::unique_ptr<Endpoint> endpoint;
  int incarnation = 0;
  TimePoint opens_at;
  TimePoint reads_at;
  std::map<std::size_t, std::uint64_t> losses;  // of peers, as the application of this incarnation was told
  std::map<std::size_t, PeerState> states;
};

class Simulation {
 public:
  Simulation(std::uint64_t seed, const std::function<void(const std::string&)>& tell)
      : tell_(tell), random_(seed), network_(clock_, seed) {
    const std::size_t count = pick(2, 4);
    for (std::size_t i = 0; i < count; ++i) {
      Node& node = nodes_.emplace_back();
      node.name = std::string(1, static_cast<char>('a' + i));
      node.options = draw_options();
      node.opens_at = clock_.now() + milliseconds(pick(0, 2000));
    }
    for (std::size_t a = 0; a < count; ++a) {
      for (std::size_t b = a + 1; b < count; ++b) pairs_.push_back({a, b, {}});
    }
    wildness_ = static_cast<int>(pick(0, 3));
  }

  SimulationOutcome run() {
    const TimePoint faults_end = clock_.now() + milliseconds(pick(2'000, 40'000));
    while (clock_.now() < faults_end && outcome_.violation.empty()) {
      for (std::size_t i = pick(0, 4); i > 0; --i) send_something();
      if (chance(wildness_ * 5)) disturb();
      step(milliseconds(pick(1, 150)));
    }
    calm_down();
    const TimePoint quiet_end = clock_.now() + kQuietTime;
    // At least once, so that every application has read what there was.
    do {
      step(milliseconds(100));
    } while (clock_.now() < quiet_end && outcome_.violation.empty() && !(all_up() && nothing_is_owed()));
    if (outcome_.violation.empty()) check_the_end();
    for (Node& node : nodes_) node.endpoint.reset();
    return outcome_;
  }

 private:
  struct PairOfNodes {
    std::size_t a = 0;
    std::size_t b = 0;
    std::optional<TimePoint> heals_at;
  };

  // -- drawing

  std::uint64_t pick(std::uint64_t least, std::uint64_t most) {
    return std::uniform_int_distribution<std::uint64_t>(least, most)(random_);
  }
  bool chance(int percent) { return static_cast<int>(pick(1, 100)) <= percent; }
  template <class T>
  T& one_of(std::vector<T>& values) {
    return values[pick(0, values.size() - 1)];
  }

  SessionOptions draw_options() {
    SessionOptions options;
    std::vector<std::size_t> chunks = {13, 50, 700, 4096, std::numeric_limits<std::size_t>::max()};
    std::vector<std::uint64_t> limits = {1, 2000, 10'000, 100'000};
    options.chunk_bytes = one_of(chunks);
    // The window is agreed upon beforehand: it is the same at all nodes.
    if (window_ == 0) window_ = one_of(limits);
    options.window_bytes = window_;
    options.queue_bytes = one_of(limits);
    return options;
  }

  std::size_t draw_size() {
    if (chance(30)) return 0;
    return chance(20) ? pick(0, kMostBytes) : pick(0, 300);
  }

  // -- telling

  template <class... Ts>
  void note(const Ts&... parts) {
    const std::string line =
        text(std::chrono::duration_cast<milliseconds>(clock_.now().time_since_epoch()).count(), " ms: ", parts...);
    for (const char c : line) outcome_.digest = (outcome_.digest ^ static_cast<unsigned char>(c)) * 1099511628211U;
    if (tell_) tell_(line);
  }
  template <class... Ts>
  void violated(const Ts&... parts) {
    if (outcome_.violation.empty()) outcome_.violation = text(parts...);
    note("VIOLATION ", parts...);
  }
  std::string described(std::uint64_t id) const {
    const Sent& sent = sent_[id];
    return text("message ", id, " from ", nodes_[sent.from].name, "#", sent.sender, " to ", nodes_[sent.to].name,
                " in lane ", sent.lane);
  }

  // -- what happens

  void open(Node& node) {
    std::vector<std::string> peers;
    for (const Node& other : nodes_) {
      if (&other != &node) peers.push_back(other.name);
    }
    ++node.incarnation;
    node.losses.clear();
    node.states.clear();
    node.endpoint = network_.open(node.name, peers, node.options);
    note(node.name, "#", node.incarnation, " opens");
  }

  void send_something() {
    const std::size_t from = pick(0, nodes_.size() - 1);
    std::size_t to = pick(0, nodes_.size() - 2);
    if (to >= from) ++to;
    send(from, to, pick(0, wire::kLanes - 1), draw_size());
  }

  void send(std::size_t from, std::size_t to, std::size_t lane, std::size_t size) {
    Node& node = nodes_[from];
    if (node.endpoint == nullptr) return;
    const std::uint64_t id = sent_.size();
    sent_.push_back({from, to, lane, node.incarnation, nodes_[to].incarnation, node.losses[to], 0, {}, false});
    const Status accepted = node.endpoint->send(nodes_[to].name, filled(id, size), static_cast<Priority>(lane),
                                                [this, id](const Status& status) { completed(id, status); });
    if (accepted.ok()) {
      ++outcome_.accepted;
      note(described(id), ", ", size, " bytes: accepted");
    } else {
      sent_.pop_back();
      if (accepted.code() != Code::kUnavailable) violated(described(id), " is refused: ", accepted);
    }
  }

  void completed(std::uint64_t id, const Status& status) {
    Sent& sent = sent_[id];
    if (++sent.completions > 1) violated(described(id), " completes twice");
    sent.status = status;
    outcome_.failed += status.ok() ? 0 : 1;
    note(described(id), " completes: ", status);
  }

  void disturb() {
    PairOfNodes& pair = one_of(pairs_);
    Node& node = one_of(nodes_);
    const std::string& a = nodes_[pair.a].name;
    const std::string& b = nodes_[pair.b].name;
    switch (pick(0, 6)) {
      case 0:
      case 1:
        ++outcome_.cuts;
        note("cut ", a, " ", b);
        network_.cut(a, b);
        break;
      case 2:
        ++outcome_.partitions;
        pair.heals_at = clock_.now() + milliseconds(chance(30) ? pick(3'000, 50'000) : pick(1, 3'000));
        note("part ", a, " ", b);
        network_.set_parted(a, b, true);
        break;
      case 3:
      case 4: {
        const bool slow = chance(20);
        const inproc::Conditions conditions{milliseconds(pick(0, slow ? 2000 : 100)), milliseconds(pick(0, 100))};
        note("delay ", a, " ", b);
        network_.set_conditions(a, b, conditions);
        if (chance(50)) network_.set_conditions(b, a, conditions);
        break;
      }
      case 5: node.reads_at = clock_.now() + milliseconds(pick(10, 10'000)); break;
      default: end(node);
    }
  }

  void end(Node& node) {
    if (node.endpoint == nullptr) return;
    ++outcome_.restarts;
    const bool politely = chance(30);
    note(node.name, "#", node.incarnation, politely ? " closes" : " ends");
    if (politely) (void)node.endpoint->close(clock_.now());
    node.endpoint.reset();
    node.opens_at = clock_.now() + milliseconds(chance(50) ? 0 : pick(0, 15'000));
    check_that_all_completed(node);
  }

  void check_that_all_completed(const Node& node) {
    for (std::uint64_t id = 0; id < sent_.size(); ++id) {
      if (nodes_[sent_[id].from].name == node.name && sent_[id].completions == 0) {
        violated(described(id), " was not completed when its endpoint ended");
      }
    }
  }

  void calm_down() {
    note("calm");
    for (PairOfNodes& pair : pairs_) {
      pair.heals_at.reset();
      network_.set_parted(nodes_[pair.a].name, nodes_[pair.b].name, false);
      network_.set_conditions(nodes_[pair.a].name, nodes_[pair.b].name, {milliseconds(5), milliseconds(1)});
      network_.set_conditions(nodes_[pair.b].name, nodes_[pair.a].name, {milliseconds(5), milliseconds(1)});
    }
    for (Node& node : nodes_) {
      node.reads_at = clock_.now();
      node.opens_at = std::min(node.opens_at, clock_.now());
    }
  }

  void step(Duration length) {
    for (Node& node : nodes_) {
      if (node.endpoint == nullptr && clock_.now() >= node.opens_at) open(node);
    }
    for (PairOfNodes& pair : pairs_) {
      if (!pair.heals_at || clock_.now() < *pair.heals_at) continue;
      pair.heals_at.reset();
      note("heal ", nodes_[pair.a].name, " ", nodes_[pair.b].name);
      network_.set_parted(nodes_[pair.a].name, nodes_[pair.b].name, false);
    }
    network_.run_until(clock_.now() + length);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      Node& node = nodes_[i];
      if (node.endpoint == nullptr) continue;
      check_memory(node);
      if (clock_.now() >= node.reads_at) read_all(i);
    }
  }

  void check_memory(const Node& node) {
    constexpr std::uint64_t kOne = kMostBytes + 1024;  // the longest message, with all that comes with it
    for (const Node& peer : nodes_) {
      if (&peer == &node) continue;
      const PeerStatistics statistics = *node.endpoint->statistics(peer.name);
      if (statistics.queued_bytes > wire::kLanes * (node.options.queue_bytes + kOne)) {
        violated(node.name, " holds ", statistics.queued_bytes, " bytes for ", peer.name);
      }
      if (statistics.unread_bytes > wire::kLanes * (node.options.window_bytes + kOne)) {
        violated(node.name, " holds ", statistics.unread_bytes, " unread bytes of ", peer.name);
      }
    }
  }

  void read_all(std::size_t index) {
    Node& node = nodes_[index];
    for (;;) {
      const auto event = node.endpoint->receive(clock_.now());
      if (!event.ok()) return;
      const std::size_t peer = static_cast<std::size_t>(event->peer[0] - 'a');
      if (const auto* change = std::get_if<PeerChange>(&event->what)) {
        note(node.name, "#", node.incarnation, " sees ", event->peer, " ", change->state, ": ", change->reason);
        node.states[peer] = change->state;
        if (change->state == PeerState::kLost || change->state == PeerState::kLeft) {
          ++node.losses[peer];
          ++outcome_.losses;
        }
      } else {
        arrived(index, peer, std::get<wire::Message>(event->what));
      }
    }
  }

  // -- what was promised

  void arrived(std::size_t at, std::size_t from, const wire::Message& message) {
    const std::uint64_t id = number_of(message);
    if (id >= sent_.size()) return violated("a message arrives that nobody sent");
    Sent& sent = sent_[id];
    ++outcome_.arrived;
    note(described(id), " arrives at ", nodes_[at].name, "#", nodes_[at].incarnation);
    if (sent.from != from || sent.to != at) return violated(described(id), " arrives at the wrong node");
    if (std::exchange(sent.arrived, true)) return violated(described(id), " arrives twice");
    if (!is_intact(message)) return violated(described(id), " arrives changed");
    auto& last = last_[{sent.from, std::size_t(sent.sender), sent.to, std::size_t(nodes_[at].incarnation), sent.lane}];
    if (last && *last > id) return violated(described(id), " arrives after message ", *last);
    last = id;
  }

  bool all_up() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].endpoint == nullptr) return false;
      for (std::size_t j = 0; j < nodes_.size(); ++j) {
        if (i != j && nodes_[i].states[j] != PeerState::kUp) return false;
      }
    }
    return true;
  }

  bool nothing_is_owed() const {
    return std::ranges::all_of(sent_, [&](const Sent& sent) {
      return sent.completions > 0 && (!sent.status.ok() || sent.arrived || receiver_ended(sent));
    });
  }
  bool receiver_ended(const Sent& sent) const { return nodes_[sent.to].incarnation != sent.receiver; }

  void check_the_end() {
    if (!all_up()) violated("not all nodes found each other again");
    for (std::uint64_t id = 0; id < sent_.size(); ++id) {
      const Sent& sent = sent_[id];
      const Node& sender = nodes_[sent.from];
      if (sent.completions == 0) {
        violated(described(id), " never completes");
      } else if (sent.status.ok()) {
        if (!sent.arrived && !receiver_ended(sent)) violated(described(id), " completes well and never arrives");
      } else if (sent.status.code() == Code::kCancelled) {
        if (sender.incarnation == sent.sender) violated(described(id), " was cancelled by nobody");
      } else if (sender.incarnation == sent.sender && sender.losses.at(sent.to) <= sent.losses_before) {
        violated(described(id), " fails and its peer was not reported lost");
      }
    }
  }

  const std::function<void(const std::string&)>& tell_;
  std::mt19937_64 random_;
  ManualClock clock_;
  SimulationOutcome outcome_;
  std::vector<Sent> sent_;
  std::map<std::array<std::size_t, 5>, std::optional<std::uint64_t>> last_;
  inproc::Network network_;
  std::uint64_t window_ = 0;
  int wildness_ = 0;
  std::vector<Node> nodes_;
  std::vector<PairOfNodes> pairs_;
};

}  // namespace

SimulationOutcome& SimulationOutcome::operator+=(const SimulationOutcome& other) {
  accepted += other.accepted;
  arrived += other.arrived;
  failed += other.failed;
  cuts += other.cuts;
  partitions += other.partitions;
  restarts += other.restarts;
  losses += other.losses;
  return *this;
}

SimulationOutcome simulate(std::uint64_t seed, const std::function<void(const std::string&)>& tell) {
  return Simulation(seed, tell).run();
}

}  // namespace ravnest::transport
