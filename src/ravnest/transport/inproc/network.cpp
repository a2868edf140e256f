#include "ravnest/transport/inproc/network.h"

#include <algorithm>
#include <limits>

namespace ravnest::transport::inproc {
namespace {

constexpr Duration kFirstBackoff = std::chrono::milliseconds(20);
constexpr Duration kLastBackoff = std::chrono::seconds(1);

}  // namespace

class Node final : public Endpoint {
 public:
  Node(Network& network, const std::string& name, const std::vector<std::string>& peers, const SessionOptions& options,
       const std::function<std::uint64_t()>& new_session_id)
      : network_(network),
        board_(std::make_shared<Switchboard>(
            SwitchboardOptions{name, peers, options, new_session_id}, network.clock_,
            [this](const std::string& peer, std::uint64_t) { network_.wake(this->name(), peer); })) {
    network_.join(name, peers, board_);
  }
  ~Node() override { end(std::nullopt, cancelled(name(), " was ended")); }

  const std::string& name() const override { return board_->name(); }
  Status send(const std::string& peer, wire::Message message, Priority priority, Completion done,
              TimePoint deadline) override {
    return board_->send(peer, std::move(message), priority, std::move(done), deadline);
  }
  Result<Event> receive(TimePoint deadline, Channel channel) override { return board_->receive(deadline, channel); }
  void interrupt(Channel channel) override { board_->interrupt(channel); }
  Result<PeerStatistics> statistics(const std::string& peer) const override { return board_->statistics(peer); }
  Status close(TimePoint deadline) override {
    board_->stop_sending();
    Status drained = board_->wait_until_drained(deadline);
    end(text(name(), " closed"), cancelled(name(), " is closed"));
    return drained;
  }

 private:
  void end(const std::optional<std::string>& goodbye, const Status& status) {
    if (ended_.exchange(true)) return;
    network_.leave(*board_, goodbye);
    board_->shut(status);
  }

  Network& network_;
  std::shared_ptr<Switchboard> board_;
  std::atomic<bool> ended_ = false;
};

Network::Network() : clock_(system_clock_), random_(std::random_device{}()) {
  thread_ = std::thread([this] { run(); });
}

Network::Network(ManualClock& clock, std::uint64_t seed) : manual_(&clock), clock_(clock), random_(seed) {}

Network::~Network() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    stir();
  }
  if (thread_.joinable()) thread_.join();
}

Network::Pair Network::pair_of(const std::string& a, const std::string& b) { return a < b ? Pair(a, b) : Pair(b, a); }

Switchboard* Network::board(const std::string& name) {
  const auto found = boards_.find(name);
  return found == boards_.end() ? nullptr : found->second.get();
}

std::unique_ptr<Endpoint> Network::open(const std::string& name, const std::vector<std::string>& peers) {
  return open(name, peers, {.chunk_bytes = std::numeric_limits<std::size_t>::max()});
}

std::unique_ptr<Endpoint> Network::open(const std::string& name, const std::vector<std::string>& peers,
                                        SessionOptions options) {
  const auto new_session_id = [this] {
    const MutexLock lock(random_mutex_);
    return std::max<std::uint64_t>(random_(), 1);
  };
  return std::make_unique<Node>(*this, name, peers, options, new_session_id);
}

void Network::join(const std::string& name, const std::vector<std::string>& peers, std::shared_ptr<Switchboard> board) {
  const MutexLock lock(mutex_);
  if (!boards_.contains(name)) return put_in_place(name, peers, std::move(board));
  for (const std::string& peer : peers) {
    wire::Hello hello;
    board->describe(peer, hello);
    Switchboard* const other = this->board(peer);
    if (other == nullptr || !other->knows(name)) continue;
    if (const Status admitted = other->admits(name, hello); !admitted.ok()) board->note(peer, admitted.message());
  }
  seconds_[name].push_back({peers, std::move(board)});
}

void Network::put_in_place(const std::string& name, const std::vector<std::string>& peers,
                           std::shared_ptr<Switchboard> board) {
  boards_.emplace(name, std::move(board));
  for (const std::string& peer : peers) {
    Link& link = links_[pair_of(name, peer)];
    link.retry_at = clock_.now();
    link.backoff = kFirstBackoff;
  }
  stir();
}

void Network::leave(const Switchboard& leaver, const std::optional<std::string>& goodbye) {
  MutexLock lock(mutex_);
  const std::string& name = leaver.name();
  std::deque<Second>& seconds = seconds_[name];
  if (board(name) != &leaver) {
    std::erase_if(seconds, [&](const Second& second) { return second.board.get() == &leaver; });
    return;
  }
  for (auto& [pair, link] : links_) {
    if (pair.first != name && pair.second != name) continue;
    const std::string& peer = pair.first == name ? pair.second : pair.first;
    Switchboard* other = board(peer);
    if (goodbye && link.open && !link.parted && other != nullptr && other->is_linked(name)) {
      // What was sent before the farewell arrives before it.
      for (UnderWay& arrived : link.towards[peer].under_way) (void)deliver(name, peer, arrived);
      other->left(name, *goodbye);
    }
    disconnect(pair, link, clock_.now(), text(name, " closed the connection"));
  }
  boards_.erase(name);
  if (!seconds.empty()) {
    Second next = std::move(seconds.front());
    seconds.pop_front();
    put_in_place(name, next.peers, std::move(next.board));
  }
  settle();
}

void Network::set_conditions(const std::string& from, const std::string& to, Conditions conditions) {
  const MutexLock lock(mutex_);
  links_[pair_of(from, to)].towards[to].conditions = conditions;
}

void Network::cut(const std::string& a, const std::string& b) {
  MutexLock lock(mutex_);
  const Pair pair = pair_of(a, b);
  disconnect(pair, links_[pair], clock_.now(), "the connection was cut");
  settle();
  stir();
}

void Network::set_parted(const std::string& a, const std::string& b, bool parted) {
  const MutexLock lock(mutex_);
  links_[pair_of(a, b)].parted = parted;
  stir();
}

// Whatever the thread was going to wait for, there is something new.
void Network::stir() {
  stirred_ = true;
  changed_.notify_all();
}

void Network::disconnect(const Pair& pair, Link& link, TimePoint now, std::string_view reason) {
  if (!std::exchange(link.open, false)) return;
  for (auto& [to, way] : link.towards) way.under_way.clear();
  for (const auto& [self, peer] : {pair, Pair(pair.second, pair.first)}) {
    if (Switchboard* own = board(self); own != nullptr && own->knows(peer)) own->unlinked(peer, reason);
  }
  link.retry_at = now + link.backoff;
  link.backoff = std::min(2 * link.backoff, kLastBackoff);
}

void Network::greet(const Pair& pair, Link& link, TimePoint now) {
  link.open = true;
  for (const auto& [self, peer] : {pair, Pair(pair.second, pair.first)}) {
    wire::Hello hello;
    board(self)->describe(peer, hello);
    link.sessions[self] = hello.session;
    post(link, peer, hello, now);
  }
}

void Network::post(Link& link, const std::string& to, Parcel parcel, TimePoint now) {
  Way& way = link.towards[to];
  Duration delay = way.conditions.delay;
  if (way.conditions.jitter > Duration::zero()) {
    const MutexLock lock(random_mutex_);
    delay += Duration(std::uniform_int_distribution<Duration::rep>(0, way.conditions.jitter.count())(random_));
  }
  TimePoint arrives = now + delay;
  if (!way.under_way.empty()) arrives = std::max(arrives, way.under_way.back().arrives);
  UnderWay& posted = way.under_way.emplace_back(UnderWay{arrives, std::move(parcel), {}});
  if (auto* chunk = std::get_if<ChunkFrame>(&posted.parcel); chunk != nullptr && chunk->whole != nullptr) {
    posted.message = *chunk->whole;
  }
}

Status Network::deliver(const std::string& from, const std::string& to, UnderWay& arrived) {
  Switchboard& receiver = *board(to);
  if (const auto* hello = std::get_if<wire::Hello>(&arrived.parcel)) {
    Link& link = links_[pair_of(from, to)];
    link.backoff = kFirstBackoff;
    return receiver.linked(from, *hello, link.sessions[to]);
  }
  receiver.heard(from);
  if (auto* chunk = std::get_if<ChunkFrame>(&arrived.parcel)) {
    if (chunk->whole != nullptr) {
      return receiver.message_received(from, chunk->lane, chunk->chunk, std::move(arrived.message));
    }
    std::size_t size = 0;
    for (const Slice& slice : chunk->data) size += slice.size();
    const auto into = receiver.receive_into(from, chunk->lane, chunk->chunk, size);
    if (!into.ok()) return into.status();
    std::size_t filled = 0;
    for (const Slice& slice : chunk->data) {
      std::ranges::copy(slice.bytes, into->begin() + static_cast<std::ptrdiff_t>(filled));
      filled += slice.size();
    }
    return receiver.chunk_received(from, chunk->lane, size);
  }
  if (const auto* acknowledge = std::get_if<AcknowledgeFrame>(&arrived.parcel)) {
    return receiver.acknowledged(from, acknowledge->lane, acknowledge->acknowledge);
  }
  receiver.beat(from, std::get<wire::Heartbeat>(arrived.parcel));
  return {};
}

// One round over the link; whether anything happened.
bool Network::advance_link(const Pair& pair, Link& link, TimePoint now) {
  Switchboard* const first = board(pair.first);
  Switchboard* const second = board(pair.second);
  if (first == nullptr || second == nullptr || !first->knows(pair.second) || !second->knows(pair.first)) return false;
  if (link.parted) return false;
  if (!link.open) {
    if (now < link.retry_at) return false;
    greet(pair, link, now);
    return true;
  }
  bool happened = false;
  for (const auto& [self, peer] : {pair, Pair(pair.second, pair.first)}) {
    auto& coming = link.towards[self].under_way;
    while (!coming.empty() && coming.front().arrives <= now) {
      UnderWay arrived = std::move(coming.front());
      coming.pop_front();
      happened = true;
      if (Status delivered = deliver(peer, self, arrived); !delivered.ok()) {
        disconnect(pair, link, now, delivered.message());
        return true;
      }
    }
  }
  for (const auto& [self, peer] : {pair, Pair(pair.second, pair.first)}) {
    const std::string& to = peer;  // clang does not let a lambda have a structured binding
    while (auto frame = board(self)->next_frame(to)) {
      happened = true;
      std::visit([&](auto& each) RAVNEST_REQUIRES(mutex_) { post(link, to, std::move(each), now); }, *frame);
    }
  }
  return happened;
}

TimePoint Network::advance(TimePoint now) {
  TimePoint next = now + kBeat;
  for (auto& [name, own] : boards_) {
    for (const std::string& peer : own->look()) {
      const Pair pair = pair_of(name, peer);
      disconnect(pair, links_[pair], now, "the connection was silent for too long");
    }
  }
  for (auto& [pair, link] : links_) {
    while (advance_link(pair, link, now)) {
    }
    next = std::min(next, next_of(pair, link));
  }
  return next;
}

TimePoint Network::next_of(const Pair& pair, const Link& link) {
  // While parted nothing can be done about what is due; it would be due again and again.
  if (link.parted) return TimePoint::max();
  TimePoint next = TimePoint::max();
  for (const auto& [self, peer] : {pair, Pair(pair.second, pair.first)}) {
    const Switchboard* own = board(self);
    if (own != nullptr && own->knows(peer)) next = std::min(next, own->next_deadline(peer));
  }
  if (!link.open && board(pair.first) != nullptr && board(pair.second) != nullptr) next = std::min(next, link.retry_at);
  for (const auto& [to, way] : link.towards) {
    if (!way.under_way.empty()) next = std::min(next, way.under_way.front().arrives);
  }
  return next;
}

void Network::settle() {
  const auto boards = boards_;
  mutex_.unlock();
  for (const auto& [name, own] : boards) own->settle();
  mutex_.lock();
}

void Network::wake(const std::string& from, const std::string& to) {
  if (manual_ != nullptr) return;
  MutexLock lock(mutex_);
  const Pair pair = pair_of(from, to);
  Link& link = links_[pair];
  while (advance_link(pair, link, clock_.now())) {
  }
  if (next_of(pair, link) < sleeps_until_) stir();
  std::vector<std::shared_ptr<Switchboard>> boards;
  for (const std::string& name : {from, to}) {
    if (const auto found = boards_.find(name); found != boards_.end()) boards.push_back(found->second);
  }
  lock.unlock();
  for (const auto& own : boards) own->settle();
}

void Network::run() {
  MutexLock lock(mutex_);
  while (!ending_) {
    stirred_ = false;
    sleeps_until_ = advance(clock_.now());
    settle();
    changed_.wait_until(mutex_, sleeps_until_, [&]() RAVNEST_REQUIRES(mutex_) { return ending_ || stirred_; });
  }
}

void Network::run_until(TimePoint time) {
  MutexLock lock(mutex_);
  for (;;) {
    const TimePoint now = clock_.now();
    const TimePoint next = std::max(advance(now), now + Duration(1));
    settle();
    if (next > time) break;
    manual_->advance(next - now);
  }
  manual_->advance(time - clock_.now());
}

}  // namespace ravnest::transport::inproc
