// The ranges of numbers that come from outside: flags, pool and scenario files, arguments from Python, plan.json.
//
// They are far wider than any machine or run, and narrow enough that whatever is reckoned from numbers within them
// neither overflows nor becomes infinite.
#pragma once

#include <string>
#include <string_view>

#include "ravnest/base/status.h"

namespace ravnest::plan {

struct NumberRange {
  double least = 0;
  double most = 0;
  std::string_view unit;  // may be empty

  // Not for NaN.
  constexpr bool has(double value) const { return value >= least && value <= most; }
};

inline constexpr NumberRange kRamGb = {1e-6, 1e9, "GB"};
inline constexpr NumberRange kProcessGb = {0, 1e9, "GB"};
inline constexpr NumberRange kBandwidthMbps = {1e-6, 1e9, "Mbps"};
inline constexpr NumberRange kComputeGflops = {1e-6, 1e12, "GFLOP/s"};
inline constexpr NumberRange kLatencyMs = {0, 1e7, "ms"};
inline constexpr NumberRange kSpeedFactor = {1e-6, 1e6, ""};
inline constexpr NumberRange kOptimizerState = {0, 100, "bytes per byte of weights"};
inline constexpr NumberRange kUpdatesPerRound = {1, 1e9, "updates"};
inline constexpr NumberRange kClusterSize = {1, 1e6, "nodes"};
// Seconds, bytes, rates and counts of a finished plan: what is beyond was reckoned wrong.
inline constexpr NumberRange kPlannedFigure = {0, 4e18, ""};

// "from 0 to 100 bytes per byte of weights".
std::string words(const NumberRange& range);
// kInvalid: "WHAT must be from 0 to 100 bytes per byte of weights, not 1e+30".
Status expect_within(const NumberRange& range, std::string_view what, double value);

}  // namespace ravnest::plan
