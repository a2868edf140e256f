// For tests: two endpoints that talk to each other all the time, and what strangers may not do to them.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "ravnest/base/mutex.h"
#include "ravnest/transport/tcp/testing/nodes.h"
#include "ravnest/transport/tcp/testing/stranger.h"
#include "ravnest/transport/testing/messages.h"
#include "ravnest/transport/testing/resident.h"

namespace ravnest::transport::tcp {

#ifdef RAVNEST_SANITIZED
inline constexpr std::uint64_t kMostGrowth = std::uint64_t{1} << 40;  // sanitizers keep what was freed
inline constexpr int kScale = 10;
#else
inline constexpr std::uint64_t kMostGrowth = 48 << 20;
inline constexpr int kScale = 1;
#endif

// The parameter says whether over TLS.
class Hostile : public testing::TestWithParam<bool> {
 protected:
  Hostile() {
    // Both ends of all connections are in this process.
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 4096);
    ::setrlimit(RLIMIT_NOFILE, &limit);
    ports_ = {{"a", free_port()}, {"b", free_port()}, {"liar", free_port()}};
    a_ = open_node("a", {"b", "liar"}, Logger("a", Level::kDebug, log_));
    b_ = open_node("b", {"a"}, no_log());
    EXPECT_TRUE(next_state(*a_, "b", PeerState::kUp).ok());
    if (secure()) {
      auto tls = TlsContext::create(identity_of(authority_, "liar"));
      EXPECT_TRUE(tls.ok()) << tls.status();
      liars_tls_ = std::move(tls).value();
    }
    echo_ = std::thread([this] { echo(); });
    talk_ = std::thread([this] { talk(); });
    wait_for_rounds(20);
    resident_before_ = resident_bytes();
  }

  ~Hostile() override {
    ending_ = true;
    talk_.join();
    (void)b_->close(in_seconds(0));
    echo_.join();
    b_.reset();
    a_.reset();
    const std::string written = log_.str();
    const auto lines = std::ranges::count(written, '\n');
    const double seconds = std::chrono::duration<double>(SystemClock().now() - start_).count();
    EXPECT_LE(static_cast<double>(lines), 2 * seconds + 5) << "the log is flooded";
  }

  bool secure() const { return GetParam(); }
  const TlsContext* tls() const { return liars_tls_ ? &*liars_tls_ : nullptr; }

  Options node_options(const std::string& name, const std::vector<std::string>& peers, const Logger& log) {
    Options options;
    options.name = name;
    options.plan = "test";
    options.software = "0";
    options.listen = {"127.0.0.1", ports_.at(name)};
    for (const std::string& peer : peers) options.peers.push_back({peer, {"127.0.0.1", ports_.at(peer)}});
    options.session = {
        .chunk_bytes = 64 << 10, .window_bytes = 1 << 20, .queue_bytes = 1 << 20, .max_message_bytes = 8 << 20};
    options.log = log;
    options.insecure = secure() ? Insecure::kNo : Insecure::kOnLoopback;
    if (secure()) options.identity = identity_of(authority_, name);
    return options;
  }
  std::unique_ptr<Endpoint> open_node(const std::string& name, const std::vector<std::string>& peers,
                                      const Logger& log) {
    auto endpoint = open(node_options(name, peers, log));
    EXPECT_TRUE(endpoint.ok()) << endpoint.status();
    return std::move(endpoint).value();
  }

  // At a's port, with the identity of the node "liar" where there are any.
  Stranger stranger() {
    auto connected = Stranger::connect(ports_.at("a"), tls());
    EXPECT_TRUE(connected.ok()) << connected.status();
    return std::move(connected).value();
  }
  wire::Hello liars_hello(std::uint64_t session) const {
    wire::Hello hello;
    hello.plan = "test";
    hello.from = "liar";
    hello.to = "a";
    hello.session = session;
    return hello;
  }
  // In a session with a.
  Stranger liar(std::uint64_t session) {
    Stranger connected = stranger();
    EXPECT_TRUE(connected.say(liars_hello(session)).ok());
    EXPECT_TRUE(connected.next(wire::FrameKind::kHello).has_value());
    return connected;
  }

  void wait_for_rounds(std::uint64_t more) {
    const std::uint64_t goal = rounds_ + more;
    const MutexLock lock(mutex_);
    ASSERT_TRUE(round_.wait_until(mutex_, in_seconds(60), [&]() RAVNEST_REQUIRES(mutex_) {
      return rounds_ >= goal || broken_;
    })) << "a and b do not talk any more";
    ASSERT_FALSE(broken_);
  }
  void expect_unharmed() {
    wait_for_rounds(20);
    EXPECT_EQ(strange_messages_, 0) << "a lie was delivered";
    const std::uint64_t now = resident_bytes();
    EXPECT_LE(now, resident_before_ + kMostGrowth) << (now - resident_before_) / 1024 << " KB more";
    EXPECT_EQ(b_losses_, 0);
  }

  identity::Authority authority_ = new_authority();
  std::map<std::string, std::uint16_t> ports_;
  std::ostringstream log_;
  std::unique_ptr<Endpoint> a_;
  std::unique_ptr<Endpoint> b_;
  std::optional<TlsContext> liars_tls_;
  std::atomic<std::uint64_t> strange_messages_ = 0;
  std::atomic<std::uint64_t> welcome_messages_ = 0;  // of the liar, numbered 4242

 private:
  void echo() {
    for (;;) {
      auto event = next_message(*b_);
      if (!event.ok()) return;
      (void)b_->send("a", std::move(std::get<wire::Message>(event->what)), Priority::kNormal, {}, patiently());
    }
  }
  void talk() {
    for (std::uint64_t i = 0; !ending_; ++i) {
      if (!a_->send("b", filled(i, 3000), Priority::kNormal, {}, patiently()).ok() || !hear(i)) {
        const MutexLock lock(mutex_);
        broken_ = true;
        round_.notify_all();
        return;
      }
      const MutexLock lock(mutex_);
      ++rounds_;
      round_.notify_all();
    }
  }
  bool hear(std::uint64_t number) {
    for (;;) {
      const auto event = a_->receive(patiently());
      if (!event.ok()) return false;
      if (const auto* change = std::get_if<PeerChange>(&event->what)) {
        if (event->peer == "b" && change->state == PeerState::kLost) ++b_losses_;
        continue;
      }
      const auto& message = std::get<wire::Message>(event->what);
      if (event->peer == "b") return number_of(message) == number && is_intact(message);
      ++(number_of(message) == 4242 ? welcome_messages_ : strange_messages_);
    }
  }

  const TimePoint start_ = SystemClock().now();
  std::uint64_t resident_before_ = 0;
  std::atomic<bool> ending_ = false;
  std::atomic<std::uint64_t> rounds_ = 0;
  std::atomic<std::uint64_t> b_losses_ = 0;
  Mutex mutex_;
  ConditionVariable round_;
  bool broken_ RAVNEST_GUARDED_BY(mutex_) = false;
  std::thread echo_;
  std::thread talk_;
};

}  // namespace ravnest::transport::tcp
