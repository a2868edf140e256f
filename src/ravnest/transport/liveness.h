// Whether a peer is alive, concluded from the pauses that were seen before.
//
// Every endpoint says something to each peer at least every kBeat. The longest pause seen lately, halved every half
// minute, is what a peer is measured by: twice that and it is slow, four times and its connection is given up; as long
// again without a new one and the peer is lost. Bounds keep this sensible: nobody is blamed for less than a few beats,
// and a peer that died is lost after at most 2 * kMostPatience.
// A pure function of the times that it is told, which never go back; one owner.
#pragma once

#include <algorithm>
#include <chrono>

#include "ravnest/base/check.h"
#include "ravnest/base/clock.h"

namespace ravnest::transport {

inline constexpr Duration kBeat = std::chrono::milliseconds(500);

class Liveness {
 public:
  static constexpr Duration kLeastPatience = std::chrono::seconds(3);
  static constexpr Duration kMostPatience = std::chrono::seconds(20);

  explicit Liveness(TimePoint now) : heard_(now), decayed_(now), looked_(now) {}

  // Something came: a beat, or a part of anything.
  void heard(TimePoint now) {
    look(now);
    longest_ = std::max(longest_, now - heard_);
    heard_ = now;
  }
  // A new connection: its first pause counts from here, and the time without one says nothing about pauses.
  void restart(TimePoint now) {
    look(now);
    heard_ = now;
  }
  // To be called every beat or more often. Where it was not, this process itself was stopped: that time is not counted.
  // Returns how long it was stopped.
  Duration look(TimePoint now) {
    const Duration since = now - looked_;
    RAVNEST_CHECK(since >= Duration::zero(), "time went back by ", -since.count(), " ns");
    const Duration own_pause = since > 2 * kBeat ? since : Duration::zero();
    heard_ = std::min(heard_ + own_pause, now);
    looked_ = now;
    for (; now - decayed_ > kHalfLife; decayed_ += kHalfLife) longest_ = std::max(longest_ / 2, kBeat);
    return own_pause;
  }

  Duration silence(TimePoint now) const { return now - heard_; }
  // How long a silence is bearable before the connection, or after that the peer, is given up.
  Duration patience() const { return std::clamp(4 * longest_, kLeastPatience, kMostPatience); }
  bool is_slow(TimePoint now) const { return silence(now) > patience() / 2; }
  bool is_silent(TimePoint now) const { return silence(now) > patience(); }

 private:
  static constexpr Duration kHalfLife = std::chrono::seconds(30);

  Duration longest_ = kBeat;
  TimePoint heard_;
  TimePoint decayed_;
  TimePoint looked_;
};

}  // namespace ravnest::transport
