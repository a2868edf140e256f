#include "ravnest/strategy/launch/torchelastic_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <future>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "ravnest/net/testing/free_port.h"

namespace ravnest::strategy {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// A real store, as torchrun's agent has one.
class Torchelastic : public testing::Test {
 protected:
  Torchelastic() {
    c10d::TCPStoreOptions options;
    options.port = 0;
    options.isServer = true;
    options.waitWorkers = false;
    store_ = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
    place_.master = {"127.0.0.1", store_->getPort()};
    place_.run_id = "a run";
    place_.agent_store = true;
  }

  static Status go_on() { return {}; }

  c10::intrusive_ptr<c10d::TCPStore> store_;
  Place place_;
};

TEST_F(Torchelastic, OthersFindWhatRankZeroHasLeft) {
  const MasterExchange exchange = torchelastic_exchange(place_);
  for (const Address& own : {Address{"10.0.0.1", 40001}, Address{"", 40002}, Address{"fe80::1", 1}}) {
    ASSERT_TRUE(exchange.publish(own).ok());
    const auto found = exchange.find(go_on);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found, own);
  }
}

TEST_F(Torchelastic, OthersMayAskBeforeRankZeroIsThere) {
  std::promise<void> asked;
  auto found = std::async(std::launch::async, [&] {
    int polls = 0;
    return torchelastic_exchange(place_).find([&]() -> Status {
      if (++polls == 2) asked.set_value();
      return {};
    });
  });
  asked.get_future().get();
  ASSERT_TRUE(torchelastic_exchange(place_).publish({"10.0.0.1", 40001}).ok());
  EXPECT_EQ(*found.get(), (Address{"10.0.0.1", 40001}));
}

TEST_F(Torchelastic, TheAddressOfAnEarlierAttemptIsNotThatOfThisOne) {
  ASSERT_TRUE(torchelastic_exchange(place_).publish({"10.0.0.1", 40001}).ok());
  place_.restarts = 1;
  const auto found = torchelastic_exchange(place_).find([] { return cancelled("interrupted"); });
  EXPECT_EQ(found.status(), cancelled("interrupted"));
}

TEST_F(Torchelastic, WhatIsNoAddressIsRefused) {
  for (const std::string bad : {"", "x", "40001", "0 10.0.0.1", "70000 10.0.0.1", "10.0.0.1:40001"}) {
    store_->set("ravnest/a run/0/rank_0", std::vector<std::uint8_t>(bad.begin(), bad.end()));
    EXPECT_EQ(torchelastic_exchange(place_).find(go_on).status().code(), Code::kCorrupt) << bad;
  }
}

TEST_F(Torchelastic, AStoreThatIsNotThereIsNamed) {
  place_.master.port = free_port();
  const Status status = torchelastic_exchange(place_).publish({"10.0.0.1", 40001});
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.message(), StartsWith(text("torchrun's store at ", place_.master, " cannot be used: ")));
  const auto interrupted = torchelastic_exchange(place_).find([] { return cancelled("interrupted"); });
  EXPECT_EQ(interrupted.status(), cancelled("interrupted"));
}

// What a command prints, and its status in the last line.
std::string output_of(const std::string& command) {
  std::string output;
  FILE* pipe = ::popen((command + " 2>&1; echo status $?").c_str(), "r");
  std::array<char, 4096> some{};
  while (std::fgets(some.data(), some.size(), pipe) != nullptr) output += some.data();
  ::pclose(pipe);
  return output;
}

TEST(Torchrun, StartsRanksThatMeet) {
  const std::string output =
      output_of(text("RAVNEST_TOKEN=6b0e8d0f5c3a2194e7a8b1c2d3f40516 timeout 100 ", TORCHRUN_PYTHON,
                     " -m torch.distributed.run --nnodes 1 --nproc-per-node 3 --no-python ", MEETING_RANK));
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_THAT(output, HasSubstr(text("rank ", rank, " of 3 has met the others by torchrun")));
  EXPECT_THAT(output, HasSubstr("status 0"));
}

}  // namespace
}  // namespace ravnest::strategy
