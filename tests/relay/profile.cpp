#include "relay/profile.h"

#include <chrono>
#include <cmath>

namespace ravnest::relay {
namespace {

constexpr Duration kLongest = std::chrono::minutes(10);

Profile symmetric(double mbps, Duration round_trip) {
  const Direction way{.mbps = mbps, .delay = round_trip / 2};
  return {.up = way, .down = way};
}

Status check(const Direction& way, std::string_view name) {
  if (!std::isfinite(way.mbps) || way.mbps < 0 || (way.mbps > 0 && way.mbps < 1e-3)) {
    return invalid("the rate ", name, " has to be 0 (unlimited) or at least 0.001 Mbps, not ", way.mbps);
  }
  for (const Duration time : {way.delay, way.jitter}) {
    if (time < Duration::zero() || time > kLongest) {
      return invalid("delay and jitter ", name, " have to be from 0 to 10 minutes");
    }
  }
  return {};
}

}  // namespace

Result<Profile> profile_named(std::string_view name) {
  if (name == "clean") return Profile();
  if (name == "100mbps-80ms") return symmetric(100, std::chrono::milliseconds(80));
  if (name == "10mbps-150ms") return symmetric(10, std::chrono::milliseconds(150));
  return not_found("there is no profile \"", name, "\"; there are clean, 100mbps-80ms and 10mbps-150ms");
}

Status check(const Profile& profile) {
  if (Status up = check(profile.up, "up"); !up.ok()) return up;
  if (Status down = check(profile.down, "down"); !down.ok()) return down;
  if (profile.cut_min_bytes > profile.cut_max_bytes) {
    return invalid("cuts after ", profile.cut_min_bytes, " to ", profile.cut_max_bytes, " bytes: the range is empty");
  }
  return {};
}

}  // namespace ravnest::relay
