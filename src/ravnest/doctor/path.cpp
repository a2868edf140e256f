#include "ravnest/doctor/path.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "ravnest/base/text.h"

namespace ravnest::doctor {
namespace {

using std::chrono::duration;
using transport::tcp::Contact;

constexpr Duration kAnswerTime = std::chrono::seconds(5);
constexpr Duration kDrainTime = std::chrono::seconds(10);
constexpr std::array<std::byte, wire::kMaxProbeDataBytes> kZeros{};
// Questions on the way at a time. A node drops one who leaves more than 4 MiB of its answers unread.
constexpr int kMostUp = 256;
constexpr int kMostDown = 60;

constexpr double kSlowMbps = 10;
constexpr double kUnequal = 4;
constexpr double kUnsteady = 3;
constexpr double kUnsteadyS = 0.002;
constexpr double kFarS = 0.25;

double mbps(double bytes_per_s) { return bytes_per_s * 8 / 1e6; }

double seconds(Duration length) { return duration<double>(length).count(); }

std::string rounded(double value, int digits) {
  std::array<char, 64> written{};
  const int magnitude = value > 0 ? static_cast<int>(std::floor(std::log10(value))) : 0;
  std::snprintf(written.data(), written.size(), "%.*f", std::max(0, digits - 1 - magnitude), value);
  return written.data();
}

}  // namespace

std::string time_in_words(double time_s) {
  return time_s < 1 ? text(rounded(time_s * 1e3, 2), " ms") : text(rounded(time_s, 2), " s");
}

std::string clock_in_words(const RoundTrips& trips) {
  const double apart = std::abs(trips.clock_ahead_s);
  // No finer than it could be measured.
  if (apart < std::max(0.001, trips.least_s)) return "its clock agrees with this machine's";
  return text("its clock is ", time_in_words(apart), trips.clock_ahead_s > 0 ? " ahead of" : " behind",
              " this machine's");
}

Result<RoundTrips> measure_round_trips(Contact& contact, int count, int stop) {
  const SystemClock clock;
  std::vector<double> times;
  RoundTrips trips;
  for (int i = 0; i < count; ++i) {
    const auto wall = std::chrono::system_clock::now().time_since_epoch();
    const TimePoint asked = clock.now();
    const wire::Probe probe{wire::ProbeKind::kUpload, static_cast<std::uint64_t>(i), 0};
    const auto answer = contact.ask(probe, {}, Wait::of(kAnswerTime, stop));
    if (!answer.ok()) return answer.status();
    const double time_s = seconds(clock.now() - asked);
    if (times.empty() || time_s < std::ranges::min(times)) {
      trips.clock_ahead_s = static_cast<double>(answer->wall_ns) / 1e9 - duration<double>(wall).count() - time_s / 2;
    }
    times.push_back(time_s);
  }
  std::ranges::sort(times);
  trips.count = count;
  trips.least_s = times.front();
  trips.median_s = times[times.size() / 2];
  trips.most_s = times.back();
  return trips;
}

// Each answer lets one more question go out than before, so what is on the way doubles with every round trip, and
// never takes much longer to arrive than has passed already.
Result<double> measure_rate(Contact& contact, Way way, Duration length, int stop) {
  const SystemClock clock;
  const bool up = way == Way::kUp;
  const int most = up ? kMostUp : kMostDown;
  const Slice data{up ? ByteSpan(kZeros) : ByteSpan(), nullptr};
  const wire::Probe probe{up ? wire::ProbeKind::kUpload : wire::ProbeKind::kDownload, 0,
                          up ? 0 : static_cast<std::uint32_t>(kZeros.size())};
  const TimePoint start = clock.now();
  const Wait wait{start + length + kDrainTime, stop};
  TimePoint counted_from = start;
  TimePoint last = start;
  int asked = 0;
  int answered = 0;
  int counted = 0;  // answers since counted_from
  while (last < start + length || answered < asked) {
    while (last < start + length && asked - answered < std::min(most, 2 + answered)) {
      if (Status posted = contact.post(probe, data, wait); !posted.ok()) return posted;
      ++asked;
    }
    if (const auto answer = contact.next_answer(wait); !answer.ok()) {
      if (answer.status().code() != Code::kDeadline) return answer.status();
      return unavailable("only ", answered * kZeros.size(), " bytes came through in ",
                         time_in_words(seconds(clock.now() - start)), ": too slow to be measured, or stuck");
    }
    last = clock.now();
    ++answered;
    ++counted;
    if (counted_from == start && last >= start + length / 4) {
      counted_from = last;
      counted = 0;
    }
  }
  // So slow that nothing came after the first quarter.
  if (counted == 0) {
    counted = answered;
    counted_from = start;
  }
  return static_cast<double>(counted) * static_cast<double>(kZeros.size()) / seconds(last - counted_from);
}

std::vector<std::string> remarks(const Path& path) {
  std::vector<std::string> said;
  const RoundTrips& trips = path.round_trips;
  if (trips.median_s > kUnsteady * trips.least_s && trips.median_s - trips.least_s > kUnsteadyS) {
    said.push_back(text("the round trip varies a lot (", time_in_words(trips.least_s), " at best, ",
                        time_in_words(trips.median_s),
                        " as a rule): others use the link, it is wireless, or a machine at its end is busy"));
  }
  if (trips.least_s > kFarS) {
    said.push_back(text("the round trip is long: each batch waits ", time_in_words(trips.least_s),
                        " more for its gradient; more batches under way at a time hide that"));
  }
  const double slower = mbps(std::min(path.up_bytes_per_s, path.down_bytes_per_s));
  const double faster = mbps(std::max(path.up_bytes_per_s, path.down_bytes_per_s));
  if (faster > kUnequal * slower) {
    said.push_back(text(path.up_bytes_per_s < path.down_bytes_per_s ? "up" : "down", " is ",
                        rounded(faster / slower, 2),
                        " times slower than the other way: activations and gradients are of one size, so the slower "
                        "way is what counts (",
                        rounded(slower, 2), " Mbps)"));
  }
  if (slower < kSlowMbps) {
    said.push_back(text(rounded(slower, 2), " Mbps is slow: 1 MB of activations takes ", time_in_words(8 / slower),
                        ". Compression helps; so does a plan that knows it (\"bandwidth\" in the pool file)"));
  }
  if (std::abs(trips.clock_ahead_s) > kMostSkewS) {
    said.push_back(
        text(clock_in_words(trips), ": set both by a time server, since certificates and logs depend on it"));
  }
  return said;
}

}  // namespace ravnest::doctor
