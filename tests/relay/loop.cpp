#include "relay/loop.h"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <limits>
#include <span>
#include <utility>

namespace ravnest::relay {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kWakeTag = ~std::uint64_t{0};
constexpr std::uint64_t kDoorTag = ~std::uint64_t{1};
constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kScratchBytes = 256 << 10;
constexpr int kReadsInARow = 4;
constexpr Duration kSettleStep = milliseconds(1);
constexpr Duration kKnockPause = milliseconds(10);

}  // namespace

Loop::Loop(Door door, const Endpoint& server, const Profile& profile)
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      door_(std::move(door)),
      server_(server),
      profile_(profile),
      random_(profile.seed),
      tracks_{Track{Wire(profile.up, profile.seed + 1, clock_.now()), {}},
              Track{Wire(profile.down, profile.seed + 2, clock_.now()), {}}},
      scratch_(kScratchBytes) {
  watch(wake_.number(), kWakeTag, EPOLLIN);
  watch(door_.descriptor(), kDoorTag, EPOLLIN | EPOLLET);
  thread_ = std::thread([this] { run(); });
}

Loop::~Loop() {
  command([this] { stopping_ = true; });
  thread_.join();
}

void Loop::cut() {
  command([this] {
    // A client whose connect has returned may still be waiting at the door.
    accept_all();
    for (auto& [id, connection] : connections_) connection->reset();
    counts_.cuts += connections_.size();
    connections_.clear();
  });
}

Status Loop::set_refusing(bool refusing) {
  Status status;
  command([&] {
    if (refusing) {
      accept_all();
      door_.close();
    } else if (door_.descriptor() < 0) {
      status = door_.reopen();
      if (status.ok()) watch(door_.descriptor(), kDoorTag, EPOLLIN | EPOLLET);
    }
  });
  return status;
}

void Loop::set_silent(bool silent) {
  command([&] {
    // What comes up meanwhile is noted, as always; only no one is served.
    silent_ = silent;
    for (auto& track : tracks_) track.wire.wake(clock_.now());
  });
}

void Loop::set_profile(const Profile& profile) {
  command([&] {
    profile_ = profile;
    random_.seed(profile.seed);
    tracks_[kUp] = {Wire(profile.up, profile.seed + 1, clock_.now()), {}};
    tracks_[kDown] = {Wire(profile.down, profile.seed + 2, clock_.now()), {}};
    for (auto& [id, connection] : connections_) {
      connection->is_waiting = {};
      connection->size_buffers();
      make_ready(*connection);
    }
  });
}

Statistics Loop::statistics() {
  Statistics counted;
  command([&] { counted = counts_; });
  return counted;
}

void Loop::command(std::function<void()> work) {
  std::packaged_task<void()> task(std::move(work));
  auto done = task.get_future();
  {
    const MutexLock lock(mutex_);
    commands_.push_back(std::move(task));
  }
  wake_.raise();
  done.get();
}

void Loop::run_commands() {
  std::vector<std::packaged_task<void()>> commands;
  {
    const MutexLock lock(mutex_);
    commands.swap(commands_);
  }
  for (auto& task : commands) task();
}

void Loop::run() {
  while (!stopping_) {
    wait();
    const TimePoint now = clock_.now();
    if (knock_again_ && *knock_again_ <= now) accept_all();
    if (silent_) continue;
    fire_timers(now);
    take_turns(kUp, now);
    take_turns(kDown, now);
    for (const std::uint64_t id : std::exchange(ready_, {})) {
      if (Connection* connection = find(id)) {
        connection->is_ready = false;
        serve(*connection, clock_.now());
      }
    }
  }
  for (auto& [id, connection] : connections_) connection->reset();
}

// Sleeps until something is to be done, and notes what the sockets have to say.
void Loop::wait() {
  std::optional<TimePoint> until = knock_again_;
  const auto not_after = [&](TimePoint time) { until = until ? std::min(*until, time) : time; };
  if (!silent_) {
    if (!ready_.empty()) not_after(TimePoint::min());
    if (!timers_.empty()) not_after(timers_.top().at);
    for (const Track& track : tracks_) {
      if (!track.waiting.empty()) not_after(track.wire.opens_at());
    }
  }
  const TimePoint now = clock_.now();
  if (!until || *until > now) {
    // Not epoll_wait itself, which knows only milliseconds.
    const Duration left = until ? *until - now : Duration::zero();
    const timespec timeout{static_cast<std::time_t>(left.count() / 1'000'000'000),
                           static_cast<long>(left.count() % 1'000'000'000)};
    pollfd watched{epoll_.number(), POLLIN, 0};
    ::ppoll(&watched, 1, until ? &timeout : nullptr, nullptr);
  }
  std::array<epoll_event, 256> events;
  const int count = ::epoll_wait(epoll_.number(), events.data(), static_cast<int>(events.size()), 0);
  for (const auto& event : std::span(events).first(static_cast<std::size_t>(std::max(count, 0)))) {
    take_event(event.data.u64, event.events);
  }
}

void Loop::take_event(std::uint64_t tag, std::uint32_t events) {
  if (tag == kWakeTag) {
    wake_.take();
    run_commands();
    return;
  }
  if (tag == kDoorTag) return accept_all();
  Connection* connection = find(tag / 2);
  if (connection == nullptr) return;
  Side& side = connection->side(static_cast<int>(tag % 2));
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) side.readable = true;
  if ((events & EPOLLOUT) != 0) side.writable = true;
  if ((events & EPOLLERR) != 0) side.broken = true;
  make_ready(*connection);
}

void Loop::fire_timers(TimePoint now) {
  while (!timers_.empty() && timers_.top().at <= now) {
    if (Connection* connection = find(timers_.top().id)) {
      if (connection->timer == timers_.top().at) connection->timer.reset();
      make_ready(*connection);
    }
    timers_.pop();
  }
}

// Of those that wait for a wire, each in its turn puts one piece onto it, for as long as the wire is free.
void Loop::take_turns(int way, TimePoint now) {
  auto& [wire, waiting] = tracks_[static_cast<std::size_t>(way)];
  while (!waiting.empty() && wire.opens_at() <= now) {
    const std::uint64_t id = waiting.front();
    waiting.pop_front();
    Connection* connection = find(id);
    if (connection == nullptr) continue;
    Lane& lane = connection->lane(way);
    if (!connection->is_resetting() && lane.wants_to_take()) {
      const std::uint64_t before = lane.bytes_given();
      lane.take(std::span(scratch_).first(wire.piece_bytes()), clock_, connection->left);
      count(*connection, way, before);
    }
    const bool again = !connection->is_resetting() && lane.wants_to_take();
    connection->is_waiting[static_cast<std::size_t>(way)] = again;
    if (again) waiting.push_back(id);
    make_ready(*connection);
  }
}

void Loop::accept_all() {
  knock_again_.reset();
  if (door_.descriptor() < 0) return;
  for (;;) {
    Descriptor client = door_.accept();
    if (!client.is_open()) {
      if (errno != EAGAIN && errno != EWOULDBLOCK) knock_again_ = clock_.now() + kKnockPause;
      return;
    }
    add(std::move(client));
  }
}

void Loop::add(Descriptor client) {
  const std::uint64_t id = next_id_++;
  auto added = std::make_unique<Connection>(id, std::move(client), tracks_[kUp].wire, tracks_[kDown].wire, draw_cut());
  Connection& connection = *connections_.emplace(id, std::move(added)).first->second;
  ++counts_.connections;
  watch(connection.side(kUp).socket.number(), 2 * id + kUp, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
  make_ready(connection);
}

void Loop::dial(Connection& connection) {
  connection.dial(server_);
  watch(connection.side(kDown).socket.number(), 2 * connection.id + kDown, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
}

void Loop::watch(int descriptor, std::uint64_t tag, std::uint32_t events) const {
  epoll_event event{.events = events, .data = {.u64 = tag}};
  ::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, descriptor, &event);
}

std::uint64_t Loop::draw_cut() {
  if (profile_.cut_max_bytes == 0) return kNever;
  const std::uint64_t least = std::max<std::uint64_t>(profile_.cut_min_bytes, 1);
  return least + random_() % (profile_.cut_max_bytes - least + 1);
}

void Loop::serve(Connection& connection, TimePoint now) {
  // Only here, and not when it is accepted: while the relay is silent, the server learns of no one.
  if (Side& server = connection.side(kDown); !server.socket.is_open() && !server.broken) dial(connection);
  if (connection.is_resetting()) return settle(connection, now);
  for (const int way : {kUp, kDown}) serve_lane(connection, way, now);
  for (const int way : {kUp, kDown}) connection.lane(way).pass_break_on(now);
  Lane& up = connection.lane(kUp);
  Lane& down = connection.lane(kDown);
  if (connection.left == 0) ++counts_.cuts;
  if (connection.left == 0 || up.is_reset(now) || down.is_reset(now)) {
    connection.begin_reset(now);
    return settle(connection, now);
  }
  const bool is_left = connection.side(kUp).broken && connection.side(kDown).broken;
  if (is_left || (up.is_finished() && down.is_finished())) {
    connections_.erase(connection.id);
    return;
  }
  for (const int way : {kUp, kDown}) {
    if (const auto next = connection.lane(way).next(now)) wake_at(connection, *next);
  }
}

void Loop::serve_lane(Connection& connection, int way, TimePoint now) {
  Lane& lane = connection.lane(way);
  auto& [wire, waiting] = tracks_[static_cast<std::size_t>(way)];
  const std::uint64_t before = lane.bytes_given();
  lane.give(now, connection.left);
  if (wire.is_limited()) {
    bool& is_waiting = connection.is_waiting[static_cast<std::size_t>(way)];
    if (lane.wants_to_take() && !is_waiting) {
      if (waiting.empty()) wire.wake(now);
      waiting.push_back(connection.id);
      is_waiting = true;
    }
  } else {
    for (int i = 0; i < kReadsInARow && lane.wants_to_take() && connection.left > 0; ++i) {
      lane.take(scratch_, clock_, connection.left);
    }
    if (lane.wants_to_take()) make_ready(connection);
  }
  count(connection, way, before);
}

void Loop::settle(Connection& connection, TimePoint now) {
  for (const int way : {kUp, kDown}) {
    const std::uint64_t before = connection.lane(way).bytes_given();
    connection.lane(way).give(now, connection.left);
    count(connection, way, before);
  }
  if (connection.is_settled(now)) {
    connection.reset();
    connections_.erase(connection.id);
  } else {
    wake_at(connection, now + kSettleStep);
  }
}

void Loop::count(Connection& connection, int way, std::uint64_t given_before) {
  (way == kUp ? counts_.bytes_up : counts_.bytes_down) += connection.lane(way).bytes_given() - given_before;
}

void Loop::make_ready(Connection& connection) {
  if (!std::exchange(connection.is_ready, true)) ready_.push_back(connection.id);
}

void Loop::wake_at(Connection& connection, TimePoint at) {
  if (connection.timer && *connection.timer <= at) return;
  connection.timer = at;
  timers_.push({at, connection.id});
}

Connection* Loop::find(std::uint64_t id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : found->second.get();
}

}  // namespace ravnest::relay
