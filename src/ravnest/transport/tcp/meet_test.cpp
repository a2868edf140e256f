#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "ravnest/net/event_descriptor.h"
#include "ravnest/net/socket.h"
#include "ravnest/transport/tcp/endpoint.h"
#include "ravnest/transport/tcp/testing/nodes.h"
#include "ravnest/transport/testing/messages.h"

namespace ravnest::transport::tcp {
namespace {

using testing::HasSubstr;

class Meet : public testing::Test {
 protected:
  Options node(const std::string& name, const std::string& peer) const {
    Options options;
    options.name = name;
    options.plan = "test";
    options.listen = {"127.0.0.1", 0};
    options.peers = {{.name = peer}};
    options.identity = identity_of(authority_, name);
    options.log = no_log();
    return options;
  }
  static std::unique_ptr<NetworkEndpoint> opened(Options options) {
    auto endpoint = open(std::move(options));
    EXPECT_TRUE(endpoint.ok()) << endpoint.status();
    return *std::move(endpoint);
  }
  static Address address_of(const NetworkEndpoint& endpoint) { return {"127.0.0.1", endpoint.port()}; }

  identity::Authority authority_ = new_authority();
};

// The first change of a peer that says what keeps it away.
PeerChange next_trouble(Endpoint& endpoint) {
  for (;;) {
    const auto event = endpoint.receive(patiently());
    if (!event.ok()) {
      ADD_FAILURE() << event.status();
      return {};
    }
    const auto* change = std::get_if<PeerChange>(&event->what);
    if (change != nullptr && change->trouble != PeerTrouble::kNone) return *change;
  }
}

TEST_F(Meet, APeerWithoutAnAddressIsReachedOnceItIsMet) {
  const auto a = opened(node("a", "b"));
  const auto b = opened(node("b", "a"));
  EXPECT_NE(a->port(), 0);
  EXPECT_EQ(a->host_of("b"), "");
  // Only one of the two has to know where the other is.
  ASSERT_TRUE(b->meet("a", address_of(*a)).ok());
  ASSERT_TRUE(next_state(*a, "b", PeerState::kUp).ok());
  ASSERT_TRUE(next_state(*b, "a", PeerState::kUp).ok());
  EXPECT_EQ(a->host_of("b"), "127.0.0.1");
  EXPECT_EQ(b->host_of("a"), "127.0.0.1");
  EXPECT_EQ(a->meet("c", address_of(*b)).code(), Code::kNotFound);
}

TEST_F(Meet, APeerThatHasMovedIsFoundAgain) {
  const auto b = opened(node("b", "a"));
  {
    const auto first = opened(node("a", "b"));
    ASSERT_TRUE(b->meet("a", address_of(*first)).ok());
    ASSERT_TRUE(next_state(*b, "a", PeerState::kUp).ok());
    ASSERT_TRUE(first->close(patiently()).ok());
  }
  ASSERT_TRUE(next_state(*b, "a", PeerState::kLeft).ok());
  const auto second = opened(node("a", "b"));
  ASSERT_TRUE(b->meet("a", address_of(*second)).ok());
  EXPECT_TRUE(next_state(*b, "a", PeerState::kUp).ok());
}

TEST_F(Meet, WithoutTlsOnlyLoopbackIsMet) {
  Options options = node("a", "b");
  options.identity.reset();
  options.insecure = Insecure::kOnLoopback;
  const auto a = opened(std::move(options));
  EXPECT_EQ(a->meet("b", {"10.0.0.7", 1}).code(), Code::kInvalid);
  EXPECT_TRUE(a->meet("b", {"127.0.0.1", 1}).ok());
}

// What an endpoint tells its owner of those that it turns away; they are told the owner's words.
class Doorkeeper {
 public:
  explicit Doorkeeper(std::string words) : words_(std::move(words)) {}

  std::function<std::string(const TurnedAway&)> hook() {
    return [this](const TurnedAway& who) {
      if (!std::exchange(told_, true)) seen_.set_value(who);
      return words_;
    };
  }
  TurnedAway seen() {
    auto future = seen_.get_future();
    if (future.wait_until(patiently()) == std::future_status::ready) return future.get();
    ADD_FAILURE() << "nobody was turned away";
    return {};
  }

 private:
  std::string words_;
  bool told_ = false;
  std::promise<TurnedAway> seen_;
};

TEST_F(Meet, ANodeThatIsNoPeerHearsTheOwnersWords) {
  Doorkeeper door("there are only two of us");
  Options options = node("a", "b");
  options.on_turned_away = door.hook();
  const auto a = opened(std::move(options));
  const auto stranger = opened(node("c", "a"));
  ASSERT_TRUE(stranger->meet("a", address_of(*a)).ok());
  const PeerChange change = next_trouble(*stranger);
  EXPECT_EQ(change.trouble, PeerTrouble::kRefused);
  EXPECT_EQ(change.reason, "there are only two of us");
  const TurnedAway who = door.seen();
  EXPECT_EQ(who.why, TurnedAway::Why::kNotAPeer);
  EXPECT_EQ(who.name, "c");
  EXPECT_THAT(who.from, HasSubstr("127.0.0.1:"));
}

TEST_F(Meet, ASecondProcessOfAPeerHearsTheOwnersWordsAndTheFirstGoesOn) {
  Doorkeeper door("you are two");
  Options options = node("a", "b");
  options.on_turned_away = door.hook();
  const auto a = opened(std::move(options));
  const auto first = opened(node("b", "a"));
  ASSERT_TRUE(first->meet("a", address_of(*a)).ok());
  ASSERT_TRUE(next_state(*a, "b", PeerState::kUp).ok());
  const auto second = opened(node("b", "a"));
  ASSERT_TRUE(second->meet("a", address_of(*a)).ok());
  const PeerChange change = next_trouble(*second);
  EXPECT_EQ(change.trouble, PeerTrouble::kRefused);
  EXPECT_EQ(change.reason, "you are two");
  const TurnedAway who = door.seen();
  EXPECT_EQ(who.why, TurnedAway::Why::kSecond);
  EXPECT_EQ(who.name, "b");
  EXPECT_NE(who.from, who.first);
  EXPECT_EQ(a->statistics("b")->state, PeerState::kUp);
}

TEST_F(Meet, ANodeOfAnotherPlanUnderTheSameAuthorityHearsTheOwnersWords) {
  Doorkeeper door("that run is over");
  Options options = node("a", "b");
  options.on_turned_away = door.hook();
  const auto a = opened(std::move(options));
  Options other = node("b", "a");
  other.plan = "another";
  const auto b = opened(std::move(other));
  ASSERT_TRUE(b->meet("a", address_of(*a)).ok());
  EXPECT_EQ(next_trouble(*b).reason, "that run is over");
  EXPECT_EQ(door.seen().why, TurnedAway::Why::kOtherPlan);
}

TEST_F(Meet, OneWithoutACertificateOfThePlanIsAStranger) {
  Doorkeeper door("");
  Options options = node("a", "b");
  options.on_turned_away = door.hook();
  const auto a = opened(std::move(options));
  Options other = node("b", "a");
  other.identity = identity_of(new_authority(), "b");
  const auto b = opened(std::move(other));
  ASSERT_TRUE(b->meet("a", address_of(*a)).ok());
  EXPECT_EQ(next_trouble(*b).trouble, PeerTrouble::kOtherPlan);
  const TurnedAway who = door.seen();
  EXPECT_EQ(who.why, TurnedAway::Why::kStranger);
  EXPECT_EQ(who.name, "");
}

TEST_F(Meet, AProgramThatDoesNotSpeakTlsIsKnownByACode) {
  auto listener = Listener::open("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok()) << listener.status();
  const EventDescriptor stop;
  std::thread program([&] {
    for (;;) {
      auto caller = listener->accept(Wait::of(std::chrono::seconds(60), stop.number()));
      if (!caller.ok()) return;
      (void)caller->send(as_byte_span("HTTP/1.1 400 Bad Request\r\n\r\n"), Wait::of(std::chrono::seconds(60)));
    }
  });
  const auto a = opened(node("a", "b"));
  EXPECT_TRUE(a->meet("b", {"127.0.0.1", listener->port()}).ok());
  EXPECT_EQ(next_trouble(*a).trouble, PeerTrouble::kOtherProgram);
  stop.raise();
  program.join();
}

}  // namespace
}  // namespace ravnest::transport::tcp
