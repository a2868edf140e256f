// Any bytes as a stream of frames: the real reader, out of a real socket, into a real session that has messages to
// send.
//
// The input is a list of pieces: a kind, a lane, a length and that many bytes. Each becomes a frame with right
// checksums, so that the fuzzer gets past them; a kind beyond the last is sent as it is. Whatever comes, the session
// answers, hands over no more than its window, and completes nothing twice.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <vector>

#include "ravnest/codec/crc32c.h"
#include "ravnest/transport/session.h"
#include "ravnest/transport/tcp/frame_reader.h"

namespace {

using namespace ravnest;
using namespace ravnest::transport;
using tcp::FrameReader;

constexpr std::size_t kMostStream = 48 << 10;  // fits into the socket's buffer
constexpr TimePoint kNow{std::chrono::hours(1)};

void demand(bool holds) {
  if (!holds) std::abort();
}

std::vector<std::byte> as_stream(std::span<const std::uint8_t> data) {
  std::vector<std::byte> stream;
  while (data.size() >= 4 && stream.size() < kMostStream) {
    const std::uint8_t kind = data[0];
    const std::size_t wanted = data[2] | (std::size_t{data[3]} << 8);
    const std::size_t size = std::min({wanted, data.size() - 4, kMostStream - stream.size()});
    const ByteSpan body = std::as_bytes(data.subspan(4, size));
    if (kind <= 8) {
      const wire::FrameHeader header{static_cast<wire::FrameKind>(kind), data[1], static_cast<std::uint32_t>(size),
                                     codec::crc32c(body)};
      const auto encoded = wire::encode(header);
      stream.insert(stream.end(), encoded.begin(), encoded.end());
    }
    stream.insert(stream.end(), body.begin(), body.end());
    data = data.subspan(4 + size);
  }
  return stream;
}

wire::Message sample(std::uint64_t number) { return wire::Over{number, {}}; }

// A session that waits for the answer of a peer that is the fuzzer.
struct Victim {
  Victim() {
    for (std::size_t i = 0; i < 12; ++i) {
      wire::Message message = sample(i);
      auto encoded = wire::encode(message);
      auto done = [this, i](const Status&) { demand(++completions[i] == 1); };
      demand(session.enqueue(i % wire::kLanes, std::move(message), std::move(encoded).value(), done).ok());
    }
  }

  Status on_frame(const FrameReader& reader) {
    switch (reader.header().kind) {
      case wire::FrameKind::kHello: {
        const auto hello = wire::decode_hello(reader.body());
        if (!hello.ok()) return hello.status();
        if (!session.continues(*hello)) return corrupt("another session");
        if (Status linked = session.link(*hello, kNow); !linked.ok()) return linked;
        while (session.next_frame(kNow)) {
        }
        return {};
      }
      case wire::FrameKind::kAcknowledge: {
        const auto acknowledge = wire::decode_acknowledge(reader.body());
        return acknowledge.ok() ? session.acknowledged(reader.header().lane, *acknowledge) : acknowledge.status();
      }
      case wire::FrameKind::kHeartbeat: {
        const auto heartbeat = wire::decode_heartbeat(reader.body());
        if (heartbeat.ok()) session.beat(*heartbeat, kNow);
        return heartbeat.status();
      }
      default: return {};
    }
  }

  void check() {
    for (const Finished& finished : session.take_finished()) finished.done(finished.status);
    for (const Arrived& arrived : session.take_arrived()) unread += arrived.weight;
    demand(unread <= wire::kLanes * (options.window_bytes + options.max_message_bytes + 512));
    (void)session.look(kNow);
    while (session.next_frame(kNow)) {
    }
  }

  SessionOptions options{.chunk_bytes = 8, .window_bytes = 4096, .queue_bytes = 1 << 20, .max_message_bytes = 8192};
  BufferPool pool{1 << 20};
  Session session{options, 0x5e55, pool, kNow};
  std::array<int, 12> completions{};
  std::uint64_t unread = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<std::byte> bytes = as_stream(std::span(data, size));
  std::array<int, 2> ends{};
  demand(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0);
  auto stream = tcp::Stream::over(Socket(ends[0]), nullptr, tcp::Side::kAccepted);
  Socket other(ends[1]);
  demand(bytes.empty() ||
         ::send(ends[1], bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
  ::shutdown(ends[1], SHUT_WR);

  Victim victim;
  FrameReader reader;
  Status status;
  while (status.ok()) {
    const auto step = reader.next(*stream);
    if (!step.ok()) break;
    if (*step == FrameReader::Step::kNothing) break;
    if (*step == FrameReader::Step::kFrame) {
      status = victim.on_frame(reader);
    } else if (*step == FrameReader::Step::kChunk) {
      const auto into = victim.session.receive_into(reader.header().lane, reader.chunk(), reader.chunk_size());
      status = into.status();
      if (into.ok()) reader.receive_into(*into);
    } else {
      status = victim.session.chunk_received(reader.header().lane, reader.chunk_size(), kNow);
    }
    victim.check();
  }
  victim.session.abandon(unavailable("the end"));
  victim.check();
  for (const int completions : victim.completions) demand(completions == 1);
  return 0;
}
