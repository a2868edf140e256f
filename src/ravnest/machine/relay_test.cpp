// Links of a known rate and delay: a relay between client and server that paces by the clock.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <ctime>
#include <thread>
#include <utility>
#include <vector>

#include "ravnest/machine/link_client.h"
#include "ravnest/machine/link_testing.h"
#include "ravnest/machine/socket.h"

namespace ravnest {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A rate or a delay.
struct Lane {
  double mbps = 0;  // 0: as fast as it goes
  Duration delay{};
};

// Carries one connection, `up` from the client to the server and `down` back.
class Relay {
 public:
  Relay(Address server, Lane up, Lane down) : listener_(Listener::open("127.0.0.1", 0)) {
    EXPECT_TRUE(listener_.ok()) << listener_.status();
    thread_ = std::thread([this, server = std::move(server), up, down] { carry(server, up, down); });
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay() {
    stop_.raise();
    thread_.join();
  }

  Address address() const { return {"127.0.0.1", listener_->port()}; }

 private:
  Wait wait() const { return Wait::of(seconds(60), stop_.descriptor()); }

  void carry(const Address& server, Lane up, Lane down) {
    auto client_side = listener_->accept(wait());
    auto server_side = Socket::connect(server, wait());
    if (!client_side.ok() || !server_side.ok()) return;
    for (const Socket* socket : {&*client_side, &*server_side}) {
      // A wire holds little; the kernel's buffers would hide the rate behind megabytes.
      const int bytes = 64 << 10;
      ::setsockopt(socket->descriptor(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    }
    std::thread back([&] { pump(*server_side, *client_side, down); });
    pump(*client_side, *server_side, up);
    back.join();
  }

  static constexpr Duration kCatchUp = milliseconds(100);

  void pump(Socket& from, Socket& to, Lane lane) {
    const SystemClock clock;
    std::vector<std::byte> buffer(8 << 10);
    TimePoint free_at = clock.now();
    for (;;) {
      const auto count = from.receive_some(buffer, wait());
      if (!count.ok() || *count == 0) break;
      // Time that a busy machine took from this thread is made up for; time without data is not.
      free_at = std::max(free_at, clock.now() - kCatchUp);
      if (lane.mbps > 0) free_at += Duration(static_cast<Duration::rep>(static_cast<double>(*count) * 8e3 / lane.mbps));
      if (!until(lane.mbps > 0 ? free_at : clock.now() + lane.delay)) break;
      if (!to.send(ByteSpan(buffer).first(*count), wait()).ok()) break;
    }
    ::shutdown(to.descriptor(), SHUT_WR);
  }

  // False where the relay is to stop before.
  bool until(TimePoint time) const {
    const auto left = std::max(time - SystemClock().now(), Duration::zero());
    const timespec timeout{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
    pollfd stop{stop_.descriptor(), POLLIN, 0};
    return ::ppoll(&stop, 1, &timeout, nullptr) == 0;
  }

  StopSignal stop_;
  Result<Listener> listener_;
  std::thread thread_;
};

TEST(Relay, RateOfEachDirectionIsRecognisedWithinTwentyPercentAndTheLowerOneCounts) {
  RunningServer server({"127.0.0.1"});
  const Relay relay(server.address(), {.mbps = 16}, {.mbps = 8});
  const auto measured = measure_link(relay.address(), {5, milliseconds(1500), seconds(40)});
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_NEAR(measured->up_mbps, 16, 3.2);
  EXPECT_NEAR(measured->down_mbps, 8, 1.6);
  EXPECT_EQ(measured->bandwidth_mbps(), measured->down_mbps);
}

TEST(Relay, SlowDirectionUpIsRecognisedToo) {
  RunningServer server({"127.0.0.1"});
  const Relay relay(server.address(), {.mbps = 4}, {.mbps = 20});
  const auto measured = measure_link(relay.address(), {5, milliseconds(1500), seconds(40)});
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_NEAR(measured->up_mbps, 4, 0.8);
  EXPECT_NEAR(measured->down_mbps, 20, 4);
  EXPECT_EQ(measured->bandwidth_mbps(), measured->up_mbps);
}

TEST(Relay, LatencyIsHalfOfTheRoundTripThatTheDelaysMake) {
  RunningServer server({"127.0.0.1"});
  const Relay relay(server.address(), {.delay = milliseconds(30)}, {.delay = milliseconds(10)});
  const auto measured = measure_link(relay.address(), {9, milliseconds(500), seconds(40)});
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_GE(measured->latency_ms, 20);
  EXPECT_LT(measured->latency_ms, 40);
}

}  // namespace
}  // namespace ravnest
