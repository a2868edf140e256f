// Every way in which a pair of nodes may fail to talk, over real sockets and TLS.
#include "ravnest/doctor/peer_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>

#include "ravnest/doctor/testing/node_data.h"
#include "relay/relay.h"

namespace ravnest::doctor {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using tcp::Trouble;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using wire::FrameKind;

constexpr Duration kShort = milliseconds(300);

auto is(Severity severity, const std::string& words) {
  return AllOf(Field(&Finding::severity, severity), Field(&Finding::sentence, HasSubstr(words)));
}

// node_0 looks at node_1.
class Pair : public ::testing::Test {
 protected:
  PeerCheck check() const { return {data_.caller(0), peer(data_.here().plan, 1), seconds(5), TimePoint(), {}, -1}; }
  // What reaching node_1 ends in, as data and as a line of the examination.
  void expect(const PeerCheck& check, Trouble trouble, Severity severity, const std::string& words) const {
    const tcp::Reached reached = tcp::reach(check.own, check.peer, Wait::of(check.patience));
    EXPECT_EQ(reached.trouble, trouble) << reached.status;
    EXPECT_THAT(check_peer(check), ElementsAre(is(severity, words)));
  }
  std::uint16_t port(int node) const { return data_.here().plan.pool.nodes[node].address.port; }
  tcp::TlsContext tls(const identity::StoredIdentity& identity) const {
    return tcp::TlsContext::create(identity).value();
  }
  tcp::TlsContext tls(int node) const { return tls(data_.identity(node)); }

  NodeData data_{plan_on_free_ports(3)};
};

wire::Hello hello_of(const std::string& from, const std::string& to) {
  wire::Hello hello;
  hello.software = kTestRelease;
  hello.plan = "test";
  hello.from = from;
  hello.to = to;
  hello.purpose = wire::Purpose::kProbe;
  return hello;
}

TEST_F(Pair, BothWaysOpenIsWell) {
  const auto node_0 = data_.run(0);
  const auto node_1 = data_.run(1);
  expect(check(), Trouble::kNone, Severity::kOk, "and the other way round");
}

TEST_F(Pair, ANameWithoutAnAddressIsNamed) {
  PeerCheck check = this->check();
  check.peer.address.host = "no-such-host.invalid";
  expect(check, Trouble::kNameUnknown, Severity::kProblem, "no-such-host.invalid cannot be resolved");
}

TEST_F(Pair, APortWhereNothingListensMeansThatTheNodeIsNotRunning) {
  expect(check(), Trouble::kNothingListens, Severity::kProblem, "nothing listens at 127.0.0.1");
}

TEST_F(Pair, ALateStarterIsWaitedFor) {
  std::unique_ptr<transport::Endpoint> node_0 = data_.run(0);
  std::unique_ptr<transport::Endpoint> node_1;
  int attempts = 0;
  PeerCheck check = this->check();
  check.try_until = SystemClock().now() + kTestTime;
  check.was_heard = [&] {
    if (++attempts == 2) node_1 = data_.run(1);
    return false;
  };
  EXPECT_THAT(check_peer(check), ElementsAre(is(Severity::kOk, "reaches node_1")));
  EXPECT_EQ(attempts, 2);
}

TEST_F(Pair, WaitingEndsWhenItsTimeIsOver) {
  PeerCheck check = this->check();
  check.try_until = SystemClock().now() + milliseconds(500);
  EXPECT_THAT(check_peer(check), ElementsAre(is(Severity::kProblem, "nothing listens")));
  EXPECT_GE(SystemClock().now(), check.try_until);
}

// The machine's own queue of connections is full, so that nothing answers the next one, as behind a firewall.
TEST_F(Pair, SilenceFromTheStartIsAFirewallOrNoMachine) {
  const Descriptor full(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port(1));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;  // for a port that is held (net/testing/free_port.h)
  ASSERT_EQ(::setsockopt(full.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
  ASSERT_EQ(::bind(full.number(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  ASSERT_EQ(::listen(full.number(), 0), 0);
  std::vector<Descriptor> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    (void)::connect(waiting.back().number(), reinterpret_cast<const sockaddr*>(&at), sizeof at);
  }
  PeerCheck check = this->check();
  check.patience = kShort;
  expect(check, Trouble::kSilence, Severity::kProblem, "nothing at all comes back from 127.0.0.1");
}

TEST_F(Pair, AConnectionOnWhichNothingIsSaidIsSilenceToo) {
  const FakePeer mute(port(1), [](Socket socket, const Wait& wait) {
    std::array<std::byte, 4096> heard{};
    for (auto some = Result<std::size_t>(1); some.ok() && *some > 0;) some = socket.receive_some(heard, wait);
  });
  PeerCheck check = this->check();
  check.patience = kShort;
  expect(check, Trouble::kSilence, Severity::kProblem, "takes the connection and then says nothing");
}

TEST_F(Pair, ANodeBehindALinkThatSwallowsAllIsSilent) {
  const auto node_1 = data_.run(1);
  auto relay = relay::Relay::open(local(0), local(port(1))).value();
  relay.set_silent(true);
  PeerCheck check = this->check();
  check.peer.address = relay.address();
  check.patience = kShort;
  expect(check, Trouble::kSilence, Severity::kProblem, "run `ravnest doctor --wait 60` on both");
}

TEST_F(Pair, ASilentPeerThatCameByItselfIsEnough) {
  auto relay = relay::Relay::open(local(0), local(port(1))).value();
  relay.set_silent(true);
  PeerCheck check = this->check();
  check.peer.address = relay.address();
  check.patience = kShort;
  check.was_heard = [] { return true; };
  EXPECT_THAT(check_peer(check), ElementsAre(is(Severity::kWarning, "which has reached it: that is enough")));
}

void answer_as_a_web_server(Socket socket, const Wait& wait) {
  std::array<std::byte, 4096> request{};
  (void)socket.receive_some(request, wait);
  (void)socket.send(as_byte_span("HTTP/1.1 400 Bad Request\r\n\r\n"), wait);
  (void)socket.receive_some(request, wait);
}

TEST_F(Pair, AnotherProgramAtThePortIsNoNode) {
  const FakePeer web(port(1), answer_as_a_web_server);
  expect(check(), Trouble::kNotANode, Severity::kProblem, "does not speak TLS 1.3: another program");
}

TEST_F(Pair, AnotherProgramIsNoNodeInTheClearEither) {
  const FakePeer web(port(1), answer_as_a_web_server);
  PeerCheck check = this->check();
  check.own.tls.reset();
  expect(check, Trouble::kNotANode, Severity::kProblem, "is not a ravnest node");
}

TEST_F(Pair, OneThatHangsUpAtOnceIsNamed) {
  const FakePeer hangs_up(port(1), [](const Socket&, const Wait&) {});
  expect(check(), Trouble::kBroken, Severity::kProblem, "takes the connection and ends it");
}

TEST_F(Pair, APeerOfAnotherPlanIsNamed) {
  const identity::Authority other = tcp::new_authority();
  tcp::Options options = data_.options(1);
  options.identity = tcp::identity_of(other, "node_1");
  const auto node_1 = NodeData::run(std::move(options));
  expect(check(), Trouble::kCertificate, Severity::kProblem, "its certificate is of another plan");
}

TEST_F(Pair, AnOwnCertificateOfAnotherPlanIsRefusedByThePeer) {
  const auto node_1 = data_.run(1);
  const identity::Authority other = tcp::new_authority();
  PeerCheck check = this->check();
  check.own.tls = tls({tcp::identity_of(other, "node_0").identity, data_.authority().certificate()});
  expect(check, Trouble::kCertificate, Severity::kProblem, "does not accept this node's certificate");
}

TEST_F(Pair, AnExpiredCertificateIsNamed) {
  const auto old =
      identity::Authority::create("test", std::chrono::system_clock::now() - std::chrono::hours(24) * 365 * 6).value();
  const tcp::TlsContext theirs = tls(tcp::identity_of(old, "node_1"));
  const FakePeer expired(port(1), [&](Socket socket, const Wait& wait) {
    (void)FrameTalk(std::move(socket), theirs, tcp::Side::kAccepted, wait).shake_hands();
  });
  PeerCheck check = this->check();
  check.own.tls = tls(tcp::identity_of(old, "node_0"));
  expect(check, Trouble::kCertificate, Severity::kProblem, "its certificate has expired");
}

TEST_F(Pair, AnExpiredOwnCertificateIsRefusedByThePeer) {
  const auto old =
      identity::Authority::create("test", std::chrono::system_clock::now() - std::chrono::hours(24) * 365 * 6).value();
  // Each shows a certificate of the authority that the other one trusts.
  const tcp::TlsContext theirs = tls({data_.identity(1).identity, old.certificate()});
  const FakePeer node_1(port(1), [&](Socket socket, const Wait& wait) {
    (void)FrameTalk(std::move(socket), theirs, tcp::Side::kAccepted, wait).shake_hands();
  });
  PeerCheck check = this->check();
  check.own.tls = tls({tcp::identity_of(old, "node_0").identity, data_.authority().certificate()});
  expect(check, Trouble::kCertificate, Severity::kProblem, "by its clock this node's certificate is out of its time");
}

TEST_F(Pair, AnotherNodeOfThePlanAtThatAddressIsNamed) {
  tcp::Options options = data_.options(2);
  options.listen = local(port(1));
  const auto node_2 = NodeData::run(std::move(options));
  expect(check(), Trouble::kWrongNode, Severity::kProblem, "node_2 answers at 127.0.0.1");
}

TEST_F(Pair, AHelloOfAnotherMajorVersionIsNamed) {
  const tcp::TlsContext theirs = tls(1);
  const FakePeer newer(port(1), [&](Socket socket, const Wait& wait) {
    FrameTalk talk(std::move(socket), theirs, tcp::Side::kAccepted, wait);
    if (!talk.shake_hands() || !talk.next()) return;
    wire::Hello hello = hello_of("node_1", "node_0");
    hello.major = wire::kMajorVersion + 1;
    (void)talk.say(FrameKind::kHello, hello);
    (void)talk.next();
  });
  expect(check(), Trouble::kVersion, Severity::kProblem, text("it speaks version ", wire::kMajorVersion + 1, "."));
}

TEST_F(Pair, ARefusalForTheVersionIsNamedWhateverItsWords) {
  const tcp::TlsContext theirs = tls(1);
  const FakePeer newer(port(1), [&](Socket socket, const Wait& wait) {
    FrameTalk talk(std::move(socket), theirs, tcp::Side::kAccepted, wait);
    if (!talk.shake_hands() || !talk.next()) return;
    (void)talk.say(FrameKind::kGoodbye, wire::Goodbye{wire::GoodbyeCode::kVersion, "too old"});
    (void)talk.next();
  });
  expect(check(), Trouble::kVersion, Severity::kProblem, "refuses: too old");
}

TEST_F(Pair, ANodeRefusesAHelloOfAnotherMajorVersionAsSuch) {
  const auto node_1 = data_.run(1);
  const Wait wait = Wait::of(kTestTime);
  const tcp::TlsContext own = tls(0);
  FrameTalk talk(Socket::connect(local(port(1)), wait).value(), own, tcp::Side::kDialled, wait);
  ASSERT_TRUE(talk.shake_hands());
  wire::Hello hello = hello_of("node_0", "node_1");
  hello.major = wire::kMajorVersion + 1;
  ASSERT_TRUE(talk.say(FrameKind::kHello, hello));
  ASSERT_TRUE(talk.next());
  ASSERT_EQ(talk.kind(), FrameKind::kGoodbye);
  const auto goodbye = wire::decode_goodbye(talk.body());
  ASSERT_TRUE(goodbye.ok()) << goodbye.status();
  EXPECT_EQ(goodbye->code, wire::GoodbyeCode::kVersion);
  EXPECT_THAT(goodbye->reason, HasSubstr(text("version ", wire::kMajorVersion + 1, ".")));
}

TEST_F(Pair, ARefusalIsPassedOn) {
  tcp::Options options = data_.options(1);
  options.plan = "other";  // the certificates are right
  const auto node_1 = NodeData::run(std::move(options));
  expect(check(), Trouble::kRefused, Severity::kProblem, "refuses: node_0 is of plan test, node_1 of plan other");
}

TEST_F(Pair, OneWayIsEnoughAndAWarning) {
  tcp::Options options = data_.options(1);
  options.peers[0].address = local(free_port());  // of node_0, as node_1 sees it
  const auto node_0 = data_.run(0);
  const auto node_1 = NodeData::run(std::move(options));
  expect(check(), Trouble::kNone, Severity::kWarning, "but node_1 cannot reach node_0 (nothing listens at");
}

TEST_F(Pair, AWayBackThatIsRefusedIsAWarning) {
  const auto node_0 = data_.run(0);
  auto relay = relay::Relay::open(local(0), local(port(0))).value();
  ASSERT_TRUE(relay.set_refusing(true).ok());
  tcp::Options options = data_.options(1);
  options.peers[0].address = relay.address();
  const auto node_1 = NodeData::run(std::move(options));
  expect(check(), Trouble::kNone, Severity::kWarning, "That is enough, since either side may dial");
}

TEST_F(Pair, ClocksFarApartAreAWarning) {
  const tcp::TlsContext theirs = tls(1);
  const FakePeer ahead(port(1), [&](Socket socket, const Wait& wait) {
    FrameTalk talk(std::move(socket), theirs, tcp::Side::kAccepted, wait);
    if (!talk.shake_hands() || !talk.next()) return;
    (void)talk.say(FrameKind::kHello, hello_of("node_1", "node_0"));
    while (talk.next()) {
      wire::ProbeAnswer answer;
      answer.number = wire::decode_probe(talk.body()).value().number;
      const auto there = std::chrono::system_clock::now() + seconds(10);
      answer.wall_ns = std::chrono::nanoseconds(there.time_since_epoch()).count();
      if (!talk.say(FrameKind::kProbeAnswer, answer)) return;
    }
  });
  EXPECT_THAT(check_peer(check()),
              ElementsAre(is(Severity::kOk, "reaches node_1"), is(Severity::kWarning, "its clock is 10")));
}

TEST_F(Pair, AConnectionThatBreaksWhileAskingIsNamed) {
  const tcp::TlsContext theirs = tls(1);
  const FakePeer brittle(port(1), [&](Socket socket, const Wait& wait) {
    FrameTalk talk(std::move(socket), theirs, tcp::Side::kAccepted, wait);
    if (!talk.shake_hands() || !talk.next()) return;
    (void)talk.say(FrameKind::kHello, hello_of("node_1", "node_0"));
    (void)talk.next();
  });
  EXPECT_THAT(check_peer(check()), ElementsAre(is(Severity::kProblem, "but the connection did not last")));
}

TEST_F(Pair, BeingAskedToStopEndsEverythingAtOnce) {
  auto relay = relay::Relay::open(local(0), local(port(1))).value();
  relay.set_silent(true);
  const EventDescriptor stop;
  stop.raise();
  PeerCheck check = this->check();
  check.peer.address = relay.address();
  check.patience = std::chrono::hours(1);
  check.try_until = SystemClock().now() + check.patience;
  check.stop = stop.number();
  EXPECT_EQ(tcp::reach(check.own, check.peer, Wait::of(check.patience, stop.number())).trouble, Trouble::kStopped);
  (void)check_peer(check);
}

TEST_F(Pair, BeingAskedToStopInTheMiddleOfTheGreetingIsNoRefusal) {
  const EventDescriptor stop;
  const FakePeer mute(port(1), [&](Socket socket, const Wait& wait) {
    std::array<std::byte, 4096> heard{};
    (void)socket.receive_some(heard, wait);
    stop.raise();
    (void)socket.receive_some(heard, wait);
  });
  const tcp::Reached reached =
      tcp::reach(data_.caller(0), peer(data_.here().plan, 1), Wait::of(kTestTime, stop.number()));
  EXPECT_EQ(reached.trouble, Trouble::kStopped) << reached.status;
}

}  // namespace
}  // namespace ravnest::doctor
