// What the two sides of a link measurement say to each other, as bytes.
//
// The client connects and sends a hello; the server answers; only after "ready" does anything else go over the wire:
//   1. echoes: `echoes` times one byte there and one byte back;
//   2. up: the client sends zeros for `stream_ms`, then one byte 1; the server answers with what it received;
//   3. down: the server sends zeros for `stream_ms`, then one byte 1;
//   4. goodbye: the client sends one byte, and the server, now free for the next client, closes.
// Numbers are little-endian. The decoders take any bytes.
//
//   hello   8 magic, u16 version, u16 zero, u32 echoes, u32 stream_ms
//   answer  8 magic, u16 version, u16 answer
//   rate    u64 bytes, u64 nanoseconds
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ravnest/base/bytes.h"
#include "ravnest/base/clock.h"
#include "ravnest/base/status.h"

namespace ravnest {

inline constexpr std::uint16_t kLinkVersion = 1;
inline constexpr std::size_t kHelloBytes = 20;
inline constexpr std::size_t kAnswerBytes = 12;
inline constexpr std::size_t kRateBytes = 16;

// A server serves no more than this, whoever asks.
inline constexpr std::uint32_t kMaxEchoes = 1000;
inline constexpr std::uint32_t kMaxStreamMs = 10'000;

struct LinkHello {
  std::uint32_t echoes = 0;
  std::uint32_t stream_ms = 0;

  friend bool operator==(const LinkHello&, const LinkHello&) = default;
};

enum class LinkAnswer : std::uint16_t { kReady = 0, kBusy = 1, kRefused = 2 };

// What arrived in which time.
struct StreamRate {
  std::uint64_t bytes = 0;
  Duration time{};

  // Megabits (10^6 bits) per second; 0 where no time went by.
  double mbps() const;
  friend bool operator==(const StreamRate&, const StreamRate&) = default;
};

std::vector<std::byte> encode(const LinkHello& hello);
std::vector<std::byte> encode(LinkAnswer answer);
std::vector<std::byte> encode(const StreamRate& rate);

// kCorrupt where the bytes are no hello at all, kUnsupported where they are one of another version, kInvalid where it
// asks for nothing or for more than a server gives.
Result<LinkHello> decode_hello(ByteSpan bytes);
// kCorrupt where a stranger answers, kUnsupported where a server of another version does.
Result<LinkAnswer> decode_answer(ByteSpan bytes);
// kCorrupt where the length is wrong or the numbers cannot be.
Result<StreamRate> decode_rate(ByteSpan bytes);

}  // namespace ravnest
