#include "ravnest/doctor/path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/doctor/testing/node_data.h"
#include "relay/relay.h"

namespace ravnest::doctor {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Path good() { return {{20, 0.001, 0.0012, 0.002, 0.01}, 50e6, 60e6}; }

TEST(PathRemarks, AGoodPathNeedsNone) { EXPECT_THAT(remarks(good()), IsEmpty()); }

TEST(PathRemarks, ARoundTripThatVaries) {
  Path path = good();
  path.round_trips.median_s = 0.02;
  EXPECT_THAT(remarks(path), ElementsAre(HasSubstr("varies a lot")));
  // Not where it is a matter of microseconds.
  path.round_trips.least_s = 0.00002;
  path.round_trips.median_s = 0.0002;
  EXPECT_THAT(remarks(path), IsEmpty());
}

TEST(PathRemarks, ALongWay) {
  Path path = good();
  path.round_trips.least_s = path.round_trips.median_s = 0.4;
  EXPECT_THAT(remarks(path), ElementsAre(HasSubstr("waits 400 ms more")));
}

TEST(PathRemarks, UnequalDirectionsNameTheSlowerOne) {
  Path path = good();
  path.up_bytes_per_s = 5e6;
  EXPECT_THAT(remarks(path), ElementsAre(HasSubstr("up is 12 times slower")));
  path = good();
  path.down_bytes_per_s = 5e6;
  EXPECT_THAT(remarks(path), ElementsAre(HasSubstr("down is 10 times slower")));
}

TEST(PathRemarks, ASlowPathSaysWhatThatMeans) {
  Path path = good();
  path.up_bytes_per_s = path.down_bytes_per_s = 0.5e6;
  EXPECT_THAT(remarks(path), ElementsAre(HasSubstr("4.0 Mbps is slow: 1 MB of activations takes 2.0 s")));
}

TEST(PathRemarks, AClockThatIsWrong) {
  Path path = good();
  path.round_trips.clock_ahead_s = -7.5;
  EXPECT_THAT(remarks(path), ElementsAre(HasSubstr("its clock is 7.5 s behind this machine's: set both")));
}

TEST(ClockInWords, IsNoFinerThanItWasMeasured) {
  EXPECT_EQ(clock_in_words({1, 0.1, 0.1, 0.1, 0.05}), "its clock agrees with this machine's");
  EXPECT_EQ(clock_in_words({1, 0.1, 0.1, 0.1, 0.4}), "its clock is 400 ms ahead of this machine's");
}

// node_0 asks node_1 over a relay.
class MeasuredPath : public ::testing::Test {
 protected:
  void open(const relay::Profile& profile) {
    relay_.emplace(relay::Relay::open(local(0), data_.here().plan.pool.nodes[1].address, profile).value());
    tcp::Reached reached = tcp::reach(data_.caller(0), {"node_1", relay_->address()}, Wait::of(kTestTime));
    ASSERT_TRUE(reached.status.ok()) << reached.status;
    contact_ = std::move(reached.contact);
  }

  NodeData data_{plan_on_free_ports(2)};
  std::unique_ptr<transport::Endpoint> node_1_ = data_.run(1);
  std::optional<relay::Relay> relay_;
  std::unique_ptr<tcp::Contact> contact_;
};

TEST_F(MeasuredPath, TellsWhoIsThere) {
  open({});
  EXPECT_EQ(contact_->hello().software, kTestRelease);
  EXPECT_EQ(contact_->certificate().name, "node_1");
  EXPECT_EQ(contact_->certificate().issuer, "ravnest plan test");
  EXPECT_THAT(contact_->certificate().valid_until, HasSubstr("GMT"));
}

TEST_F(MeasuredPath, RoundTripsCarryTheDelayAndTheClock) {
  relay::Profile profile;
  profile.up.delay = profile.down.delay = milliseconds(20);
  open(profile);
  const auto trips = measure_round_trips(*contact_, 5);
  ASSERT_TRUE(trips.ok()) << trips.status();
  EXPECT_EQ(trips->count, 5);
  EXPECT_GE(trips->least_s, 0.04);
  EXPECT_LE(trips->least_s, trips->median_s);
  EXPECT_LE(trips->median_s, trips->most_s);
  EXPECT_LT(std::abs(trips->clock_ahead_s), trips->least_s);
}

TEST_F(MeasuredPath, RatesAreThoseOfEachDirection) {
  relay::Profile profile;
  profile.up.mbps = 20;
  profile.down.mbps = 40;
  profile.up.delay = profile.down.delay = milliseconds(10);
  open(profile);
  // A busy moment makes a path slower than it is: then once more.
  const auto measured_mbps = [&](Way way, double slowest) {
    for (int attempt = 1;; ++attempt) {
      const auto rate = measure_rate(*contact_, way, milliseconds(800));
      EXPECT_TRUE(rate.ok()) << rate.status();
      const double mbps = rate.ok() ? *rate * 8 / 1e6 : 0;
      if (!rate.ok() || mbps > slowest || attempt == 5) return mbps;
    }
  };
  const double up = measured_mbps(Way::kUp, 10);
  EXPECT_LT(up, 25);
  EXPECT_GT(up, 10);
  const double down = measured_mbps(Way::kDown, 26);
  EXPECT_LT(down, 50);
  EXPECT_GT(down, 26);
}

TEST_F(MeasuredPath, StopsWhenAskedTo) {
  open({});
  relay_->set_silent(true);
  const EventDescriptor stop;
  stop.raise();
  EXPECT_EQ(measure_round_trips(*contact_, 5, stop.number()).status().code(), Code::kCancelled);
  EXPECT_EQ(measure_rate(*contact_, Way::kDown, kTestTime, stop.number()).status().code(), Code::kCancelled);
}

}  // namespace
}  // namespace ravnest::doctor
