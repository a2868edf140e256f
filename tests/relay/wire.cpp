#include "relay/wire.h"

#include <algorithm>
#include <chrono>

namespace ravnest::relay {
namespace {

using std::chrono::milliseconds;

constexpr Duration kAhead = milliseconds(1);
constexpr Duration kTurn = milliseconds(1);
constexpr Duration kCatchUp = milliseconds(100);
constexpr Duration kSlack = milliseconds(20);
constexpr double kLargestPiece = 256 << 10;
constexpr double kSmallestPiece = 1500;
constexpr double kRoom = 64 << 10;
constexpr double kLargestRoom = 64 << 20;
constexpr std::size_t kUnlimitedRoom = 1 << 20;
constexpr std::size_t kUnlimitedRoomWithDelay = 16 << 20;
// Less than this, and loopback, with its packets of 64 KB, stumbles over closed windows.
constexpr double kSmallestKernelBuffer = 64 << 10;
constexpr double kLargestKernelBuffer = 1 << 20;

double bytes_in(double mbps, Duration time) { return mbps / 8e3 * static_cast<double>(time.count()); }

std::size_t piece(const Direction& way) {
  if (way.mbps == 0) return static_cast<std::size_t>(kLargestPiece);
  return static_cast<std::size_t>(std::clamp(bytes_in(way.mbps, kTurn), kSmallestPiece, kLargestPiece));
}

std::size_t room(const Direction& way) {
  const Duration longest = way.delay + way.jitter;
  if (way.mbps == 0) return longest == Duration::zero() ? kUnlimitedRoom : kUnlimitedRoomWithDelay;
  return static_cast<std::size_t>(std::min(bytes_in(way.mbps, longest + kSlack) + kRoom, kLargestRoom));
}

int kernel_buffer(const Direction& way) {
  const double wanted = way.mbps == 0 ? kLargestKernelBuffer : bytes_in(way.mbps, kSlack);
  return static_cast<int>(std::clamp(wanted, kSmallestKernelBuffer, kLargestKernelBuffer));
}

}  // namespace

Wire::Wire(const Direction& direction, std::uint64_t seed, TimePoint now)
    : direction_(direction),
      random_(seed),
      free_at_(now),
      piece_bytes_(piece(direction)),
      room_bytes_(room(direction)),
      kernel_bytes_(kernel_buffer(direction)) {}

TimePoint Wire::opens_at() const { return free_at_ - kAhead; }

void Wire::wake(TimePoint now) { free_at_ = std::max(free_at_, now); }

TimePoint Wire::carry(std::size_t bytes, TimePoint now) {
  TimePoint left_at = now;
  if (is_limited()) {
    free_at_ = std::max(free_at_, now - kCatchUp);
    free_at_ += Duration(static_cast<Duration::rep>(static_cast<double>(bytes) * 8e3 / direction_.mbps));
    left_at = std::max(free_at_, now);
  }
  Duration jitter{};
  if (direction_.jitter > Duration::zero()) {
    jitter =
        Duration(static_cast<Duration::rep>(random_() % static_cast<std::uint64_t>(direction_.jitter.count() + 1)));
  }
  return left_at + direction_.delay + jitter;
}

}  // namespace ravnest::relay
