#include "ravnest/machine/link_stream.h"

#include <array>
#include <optional>
#include <vector>

namespace ravnest {
namespace {

constexpr std::size_t kSendBytes = 64 << 10;
constexpr std::size_t kReceiveBytes = 256 << 10;
constexpr std::byte kEnd{1};

}  // namespace

Status send_stream(Socket& socket, Duration length, const Wait& wait) {
  const SystemClock clock;
  const std::vector<std::byte> zeros(kSendBytes);
  const TimePoint end = clock.now() + length;
  while (clock.now() < end) {
    if (const auto sent = socket.send_some(zeros, wait); !sent.ok()) return sent.status();
  }
  return socket.send(ByteSpan(&kEnd, 1), wait);
}

Result<StreamRate> receive_stream(Socket& socket, Duration length, const Wait& wait) {
  const SystemClock clock;
  std::vector<std::byte> buffer(kReceiveBytes);
  std::optional<TimePoint> first;
  std::optional<TimePoint> counted_from;
  StreamRate rate;
  for (;;) {
    const auto count = socket.receive_some(buffer, wait);
    if (!count.ok()) return count.status();
    if (*count == 0) return unavailable("the other side closed the connection in the middle of a stream");
    const TimePoint now = clock.now();
    if (!first) first = now;
    if (!counted_from) {
      if (now - *first >= length / 4) counted_from = now;
    } else if (now - *first <= length) {
      rate.bytes += *count;
      rate.time = now - *counted_from;
    }
    if (buffer[*count - 1] == kEnd) break;
  }
  if (rate.bytes == 0 || rate.time.count() == 0) {
    return unavailable("too little came through in ", std::chrono::duration<double>(length).count(),
                       " s to tell a rate; try a longer time");
  }
  return rate;
}

}  // namespace ravnest
