// Clusters of real drivers over an in-process network, with workers that compute nothing and remember everything.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ravnest/base/mutex.h"
#include "ravnest/cluster/driver.h"
#include "ravnest/transport/inproc/network.h"

namespace ravnest::cluster {

using Numbers = std::vector<std::uint64_t>;

// 0, 1, ... count - 1
inline Numbers up_to(std::uint64_t count) {
  Numbers numbers;
  for (std::uint64_t i = 0; i < count; ++i) numbers.push_back(i);
  return numbers;
}

inline TimePoint soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(30); }

// Answers as a worker must, with tensors of a given size. What it remembers may be asked for by any thread.
class StubWorker final : public worker::Worker {
 public:
  StubWorker(stage::StageOptions stage, std::size_t tensor_bytes, bool by_pass, average::Averaging* averaging = nullptr)
      : stage_(std::move(stage)), tensor_bytes_(tensor_bytes), by_pass_(by_pass), averaging_(averaging) {}

  void fail_at(stage::WorkKind kind, std::uint64_t number, std::string reason) {
    failure_ = {kind, number};
    reason_ = std::move(reason);
  }
  void throw_at(std::uint64_t pass, std::string reason) {
    throws_at_ = pass;
    reason_ = std::move(reason);
  }
  // Waits there until it is to go on.
  void hold_at(stage::WorkKind kind, std::uint64_t number) {
    const MutexLock lock(mutex_);
    held_at_ = {kind, number};
  }
  void hold() { set_held(true); }
  void go_on() { set_held(false); }

  void wait_for_hold() {
    wait_until([&]() RAVNEST_REQUIRES(mutex_) { return waits_; });
  }
  void wait_for_forwards(std::size_t count) {
    wait_until([&]() RAVNEST_REQUIRES(mutex_) { return forwards_.size() >= count; });
  }
  void wait_for_updates(std::uint64_t count) {
    wait_until([&]() RAVNEST_REQUIRES(mutex_) { return updates_ >= count; });
  }

  Numbers forwards() const { return locked(&StubWorker::forwards_); }
  Numbers backwards() const { return locked(&StubWorker::backwards_); }
  std::uint64_t updates() const { return locked(&StubWorker::updates_); }
  Numbers rounds_given() const { return locked(&StubWorker::given_); }
  Numbers snapshots() const { return locked(&StubWorker::snapshots_); }
  Numbers rounds_taken() const { return locked(&StubWorker::taken_); }
  std::uint64_t tied_gradients() const { return locked(&StubWorker::tied_gradients_); }
  std::uint64_t adopted(int keeper) const { return locked(&StubWorker::adopted_)[keeper]; }
  std::uint64_t updates_at_forward(std::uint64_t pass) const { return locked(&StubWorker::updates_at_)[pass]; }

  Result<std::vector<worker::Outgoing>> forward(const wire::PassHead& head, std::vector<wire::Forward> parts) override {
    if (Status status = enter(stage::WorkKind::kForward, head.pass); !status.ok()) return status;
    if (head.pass == throws_at_) throw std::runtime_error(reason_);
    const stage::Neighbours& to = head.kind == wire::PassKind::kTrain ? stage_.train : stage_.evaluate;
    EXPECT_EQ(parts.size(), std::max<std::size_t>(to.producers.size(), 1));
    std::vector<worker::Outgoing> outgoing;
    for (const int consumer : to.consumers) {
      outgoing.push_back({consumer, wire::Forward{head, own_index(), {{0, true, tensor()}}, {}}});
    }
    if (stage_.index + 1 == stage_.count) outgoing.push_back({0, wire::Report{head.pass, 0, 1, 0, {}}});
    const MutexLock lock(mutex_);
    forwards_.push_back(head.pass);
    updates_at_[head.pass] = updates_;
    changed_.notify_all();
    return outgoing;
  }

  Result<std::vector<worker::Outgoing>> backward(const wire::PassHead& head, std::vector<wire::Backward> answers,
                                                 std::vector<wire::TiedTensors> tied) override {
    if (Status status = enter(stage::WorkKind::kBackward, head.pass); !status.ok()) return status;
    EXPECT_EQ(answers.size(), stage_.train.consumers.size());
    std::vector<worker::Outgoing> outgoing;
    for (const int producer : stage_.train.producers) {
      outgoing.push_back({producer, wire::Backward{head.pass, own_index(), {{0, false, tensor()}}}});
    }
    if (by_pass_) exchange_gradients(head.pass, tied, outgoing);
    const MutexLock lock(mutex_);
    backwards_.push_back(head.pass);
    changed_.notify_all();
    return outgoing;
  }

  Result<std::vector<worker::Outgoing>> update(const worker::Update& update,
                                               std::vector<wire::TiedTensors> tied) override {
    const std::uint64_t number = update.number;
    if (Status status = enter(stage::WorkKind::kUpdate, number); !status.ok()) return status;
    std::vector<worker::Outgoing> outgoing;
    if (!by_pass_ && update.steps) exchange_gradients(number, tied, outgoing);
    for (const int user : stage_.tied_users) {
      outgoing.push_back({user, wire::TiedTensors{false, number + 1, own_index(), {}}});
    }
    {
      const MutexLock lock(mutex_);
      EXPECT_EQ(updates_, number);
      ++updates_;
      changed_.notify_all();
    }
    exchange(update.gives, update.takes);
    if (update.checkpoint > 0) note_snapshot(update.checkpoint);
    return outgoing;
  }

  Status snapshot(std::uint64_t checkpoint) override {
    note_snapshot(checkpoint);
    return {};
  }

  Status give(std::uint64_t gives, std::uint64_t takes) override {
    exchange(gives, takes);
    return {};
  }

  Status adopt(wire::TiedTensors values) override {
    const MutexLock lock(mutex_);
    adopted_[static_cast<int>(values.stage)] = values.number;
    return {};
  }

 private:
  template <class T>
  T locked(T StubWorker::*member) const {
    const MutexLock lock(mutex_);
    return this->*member;
  }
  // For a checkpoint, after so many updates.
  void note_snapshot(std::uint64_t checkpoint) {
    const MutexLock lock(mutex_);
    snapshots_.push_back(checkpoint);
    snapshots_.push_back(updates_);
    changed_.notify_all();
  }
  std::uint32_t own_index() const { return static_cast<std::uint32_t>(stage_.index); }

  wire::Tensor tensor() const {
    return {DType::kUInt8,
            codec::CodecKind::kNone,
            {static_cast<std::int64_t>(tensor_bytes_)},
            slice_of(std::vector<std::byte>(tensor_bytes_))};
  }

  void exchange_gradients(std::uint64_t number, const std::vector<wire::TiedTensors>& tied,
                          std::vector<worker::Outgoing>& outgoing) {
    EXPECT_EQ(tied.size(), stage_.tied_users.size());
    for (const int keeper : stage_.tied_keepers) {
      outgoing.push_back({keeper, wire::TiedTensors{true, number, own_index(), {}}});
    }
    const MutexLock lock(mutex_);
    tied_gradients_ += tied.size();
  }

  // Its weights are the number of its updates.
  void exchange(std::uint64_t gives, std::uint64_t takes) {
    if (takes > 0 && averaging_ != nullptr) averaging_->take();
    if (gives > 0 && averaging_ != nullptr) averaging_->give(gives, {{{static_cast<float>(updates())}, {}}});
    const MutexLock lock(mutex_);
    if (takes > 0) taken_.push_back(takes);
    if (gives > 0) given_.push_back(gives);
  }

  template <class Predicate>
  void wait_until(Predicate reached) {
    const MutexLock lock(mutex_);
    EXPECT_TRUE(changed_.wait_until(mutex_, soon(), reached));
  }

  void set_held(bool held) {
    const MutexLock lock(mutex_);
    held_ = held;
    held_at_.reset();
    changed_.notify_all();
  }

  Status enter(stage::WorkKind kind, std::uint64_t number) {
    const MutexLock lock(mutex_);
    waits_ = true;
    changed_.notify_all();
    EXPECT_TRUE(changed_.wait_until(
        mutex_, soon(), [&]() RAVNEST_REQUIRES(mutex_) { return !held_ && held_at_ != std::pair(kind, number); }));
    waits_ = false;
    return failure_ == std::pair(kind, number) ? Status(Code::kInternal, reason_) : Status();
  }

  const stage::StageOptions stage_;
  const std::size_t tensor_bytes_;
  const bool by_pass_;
  average::Averaging* const averaging_;
  // Said before the first pass comes.
  std::optional<std::pair<stage::WorkKind, std::uint64_t>> failure_;
  std::optional<std::uint64_t> throws_at_;
  std::string reason_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  bool held_ RAVNEST_GUARDED_BY(mutex_) = false;
  bool waits_ RAVNEST_GUARDED_BY(mutex_) = false;
  std::optional<std::pair<stage::WorkKind, std::uint64_t>> held_at_ RAVNEST_GUARDED_BY(mutex_);
  Numbers forwards_ RAVNEST_GUARDED_BY(mutex_);
  Numbers backwards_ RAVNEST_GUARDED_BY(mutex_);
  std::uint64_t updates_ RAVNEST_GUARDED_BY(mutex_) = 0;
  Numbers given_ RAVNEST_GUARDED_BY(mutex_);
  Numbers taken_ RAVNEST_GUARDED_BY(mutex_);
  Numbers snapshots_ RAVNEST_GUARDED_BY(mutex_);
  std::uint64_t tied_gradients_ RAVNEST_GUARDED_BY(mutex_) = 0;
  std::map<int, std::uint64_t> adopted_ RAVNEST_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::uint64_t> updates_at_ RAVNEST_GUARDED_BY(mutex_);
};

struct StubClusterOptions {
  stage::Schedule schedule = stage::Schedule::kAsync;
  int window = 0;
  std::size_t tensor_bytes = 100;
  transport::SessionOptions session = {};
  std::vector<std::pair<int, int>> ties = {};  // keeper, user
  stage::Rounds rounds = {};
  std::vector<average::Averaging*> averaging = {};  // by stage; empty: there are no other clusters
  std::function<Result<wire::Account>(int stage)> on_over = {};
};

// A chain in which the first stage also sends straight to the last.
class StubCluster {
 public:
  explicit StubCluster(int count, StubClusterOptions options = {}) : count_(count) {
    options.session.chunk_bytes = std::size_t{1} << 30;
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) names.push_back(text("node_", i));
    for (int i = 0; i < count; ++i) {
      std::vector<std::string> peers = names;
      peers.erase(peers.begin() + i);
      Node& node = *nodes_.emplace_back(std::make_unique<Node>());
      node.endpoint = network_.open(names[static_cast<std::size_t>(i)], peers, options.session);
      DriverOptions driving{.stage = stage_options(i, options), .nodes = names, .log = Logger("test", Level::kOff)};
      if (!options.averaging.empty()) driving.averaging = options.averaging[static_cast<std::size_t>(i)];
      if (options.on_over) {
        driving.on_over = [i, own = options.on_over](const wire::Task&) { return own(i); };
      }
      if (i == 0) driving.on_report = [this](const wire::Report& report) { reports_.push_back(report.pass); };
      node.worker = std::make_unique<StubWorker>(driving.stage, options.tensor_bytes,
                                                 options.schedule != stage::Schedule::kAsync, driving.averaging);
      node.driver = std::make_unique<Driver>(std::move(driving), *node.endpoint, *node.worker);
    }
    run_again();
  }
  ~StubCluster() {
    for (const auto& node : nodes_) {
      node->worker->go_on();
      node->driver->stop("was closed");
    }
    join();
  }

  void run_again(bool trains = false) {
    for (const auto& node : nodes_) {
      node->thread = std::thread([&own = *node, trains] { own.outcome = own.driver->run({}, trains).status(); });
    }
  }

  StubWorker& worker(int stage) { return *nodes_[static_cast<std::size_t>(stage)]->worker; }
  Driver& driver(int stage) { return *nodes_[static_cast<std::size_t>(stage)]->driver; }
  transport::Endpoint& endpoint(int stage) { return *nodes_[static_cast<std::size_t>(stage)]->endpoint; }
  // Of passes; to be asked for when the root's run has ended, or all was drained.
  const Numbers& reports() const { return reports_; }

  Status offer(const stage::Offer& offer, Duration patience = std::chrono::seconds(30)) {
    return driver(0).offer(offer, {}, std::chrono::steady_clock::now() + patience);
  }
  void offer_until_failure() {
    const TimePoint deadline = soon();
    while (offer({}).ok()) ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "nothing failed";
  }
  Status drain() { return driver(0).drain(soon()); }

  // The root's call is over; how each stage's run ended.
  std::vector<Status> finish() {
    driver(0).finish();
    join();
    std::vector<Status> outcomes;
    for (const auto& node : nodes_) outcomes.push_back(node->outcome);
    return outcomes;
  }

  // As if its process were gone: the others get no goodbye.
  void kill(int stage) {
    for (int other = 0; other < count_; ++other) {
      if (other != stage) network_.set_parted(text("node_", stage), text("node_", other), true);
    }
  }

 private:
  struct Node {
    std::unique_ptr<transport::Endpoint> endpoint;
    std::unique_ptr<StubWorker> worker;
    std::unique_ptr<Driver> driver;
    Status outcome;
    std::thread thread;
  };

  stage::StageOptions stage_options(int index, const StubClusterOptions& options) const {
    stage::StageOptions stage;
    stage.index = index;
    stage.count = count_;
    stage.schedule = options.schedule;
    stage.window = options.window;
    if (index == 0) stage.rounds = options.rounds;
    if (index > 0) stage.train.producers.push_back(index - 1);
    if (index + 1 < count_) stage.train.consumers.push_back(index + 1);
    if (count_ > 2 && index == 0) stage.train.consumers.push_back(count_ - 1);
    if (count_ > 2 && index == count_ - 1) stage.train.producers.insert(stage.train.producers.begin(), 0);
    stage.evaluate = stage.train;
    for (const auto& [keeper, user] : options.ties) {
      if (keeper == index) stage.tied_users.push_back(user);
      if (user == index) stage.tied_keepers.push_back(keeper);
    }
    return stage;
  }

  void join() {
    for (const auto& node : nodes_) {
      if (node->thread.joinable()) node->thread.join();
    }
  }

  const int count_;
  transport::inproc::Network network_;
  Numbers reports_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace ravnest::cluster
