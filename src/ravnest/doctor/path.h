// How good a path to a node is: time, rate, and the other machine's clock.
//
// Measured by questions on an open contact; each call waits for its own bounded time at most and ends early when
// `stop` becomes readable.
#pragma once

#include <string>
#include <vector>

#include "ravnest/base/clock.h"
#include "ravnest/base/status.h"
#include "ravnest/transport/tcp/contact.h"

namespace ravnest::doctor {

// Beyond this, certificates of a fresh plan may not be valid yet over there, and logs cannot be laid side by side.
inline constexpr double kMostSkewS = 5;

struct RoundTrips {
  int count = 0;
  double least_s = 0;
  double median_s = 0;
  double most_s = 0;
  double clock_ahead_s = 0;  // the other machine's, as seen at the least round trip; no better than half of that
};

Result<RoundTrips> measure_round_trips(transport::tcp::Contact& contact, int count, int stop = -1);

enum class Way : unsigned char { kUp, kDown };

// Bytes a second of data, after the path has got up to speed. Takes about `length`, and at most that and ten seconds
// more on a path that is slower than it seemed.
Result<double> measure_rate(transport::tcp::Contact& contact, Way way, Duration length, int stop = -1);

struct Path {
  RoundTrips round_trips;
  double up_bytes_per_s = 0;
  double down_bytes_per_s = 0;
};

// What is odd about the path and what that means for training, one sentence each.
std::vector<std::string> remarks(const Path& path);

// "its clock is 0.4 s ahead of this machine's"
std::string clock_in_words(const RoundTrips& trips);
// "0.21 ms", "1.3 s"
std::string time_in_words(double seconds);

}  // namespace ravnest::doctor
