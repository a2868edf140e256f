// What travels on one connection: frames, each a header of 16 bytes and a body.
//
// A connection begins with one hello each way; then chunks of messages, acknowledgements and heartbeats mix freely
// until a goodbye or a broken connection. The header's layout and the start of the hello are the same in every version,
// so that two versions which do not understand each other can say so. docs/wire.md describes the bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ravnest/base/bytes.h"
#include "ravnest/base/status.h"

namespace ravnest::wire {

inline constexpr std::uint16_t kMajorVersion = 4;
inline constexpr std::uint16_t kMinorVersion = 0;

// Messages of one lane arrive in the order in which they were sent; lanes overtake each other.
inline constexpr std::size_t kLanes = 4;

enum class FrameKind : std::uint8_t {
  kHello = 1,
  kGoodbye = 2,  // with kHello the same in all versions: it carries refusals
  kChunk = 3,
  kAcknowledge = 4,
  kHeartbeat = 5,
  kProbe = 6,
  kProbeAnswer = 7,
};

struct FrameHeader {
  FrameKind kind = FrameKind::kHello;
  std::uint8_t lane = 0;       // of a chunk or an acknowledgement
  std::uint32_t size = 0;      // of the body
  std::uint32_t checksum = 0;  // crc32c of the body; 0 for a chunk where the connection has checksums of its own
};

inline constexpr std::size_t kHeaderBytes = 16;
inline constexpr std::size_t kMaxChunkBodyBytes = 4 << 20;
inline constexpr std::size_t kMaxProbeBodyBytes = 64 << 10;  // and of its answer
inline constexpr std::size_t kMaxSmallBodyBytes = 8 << 10;   // of any other

std::array<std::byte, kHeaderBytes> encode(const FrameHeader& header);
// kCorrupt for what is no header: its own checksum is wrong, the kind or lane unknown, the body longer than its kind
// may be.
Result<FrameHeader> decode_header(std::span<const std::byte, kHeaderBytes> bytes);

enum class Purpose : std::uint8_t {
  kSession = 0,  // to exchange messages
  kProbe = 1,    // to ask how the path is; says nothing about the node that asks
};
constexpr Purpose highest(Purpose) { return Purpose::kProbe; }

// How far a lane has come, as its receiver sees it.
struct LaneProgress {
  std::uint64_t message = 0;   // the next one that is not complete
  std::uint64_t offset = 0;    // bytes of it that are here
  std::uint64_t consumed = 0;  // bytes of messages that the application has taken; grows for ever

  bool operator==(const LaneProgress&) const = default;
};
using Progress = std::array<LaneProgress, kLanes>;

struct Hello {
  std::uint16_t major = kMajorVersion;
  std::uint16_t minor = kMinorVersion;
  std::string software;  // the release, for messages
  std::string plan;
  std::string from;
  std::string to;  // whom the sender believes to talk to
  Purpose purpose = Purpose::kSession;
  std::uint64_t session = 0;       // of the sender's end
  std::uint64_t peer_session = 0;  // of the other end as the sender knows it; 0: not yet
  Progress received;
};

// A part of a message; its data follow in the body.
struct Chunk {
  std::uint64_t message = 0;
  std::uint64_t message_size = 0;
  std::uint64_t offset = 0;
};
inline constexpr std::size_t kChunkHeadBytes = 24;

// Of the lane in the header.
struct Acknowledge {
  LaneProgress received;
};

struct Heartbeat {
  std::int64_t sent_ns = 0;  // the sender's steady clock; means nothing to others but in the echo
  std::int64_t echo_ns = 0;  // `sent_ns` of the last heartbeat from the receiver; 0: none yet
  std::int64_t held_ns = 0;  // for how long the sender had that one
};

// A later version may have others; they are taken as kRefused.
enum class GoodbyeCode : std::uint8_t {
  kRefused = 0,  // no connection between these two; trying again will not help before something is changed
  kClosing = 1,  // the sender ends in good order
  kBusy = 2,     // not this connection: there is another one, or there are too many
  kBroken = 3,   // what came can not be right; connect anew
  kVersion = 4,  // as kRefused: the two speak different major versions
};

struct Goodbye {
  GoodbyeCode code = GoodbyeCode::kClosing;
  std::string reason;
};

enum class ProbeKind : std::uint8_t {
  kUpload = 0,    // take the data that follow, and answer without any
  kDownload = 1,  // answer with `size` bytes
  kDialBack = 2,  // dial the asking node at its address of the plan, and tell how that went
};
constexpr ProbeKind highest(ProbeKind) { return ProbeKind::kDialBack; }

// A question to a node that needs no session; the data follow in the body.
struct Probe {
  ProbeKind kind = ProbeKind::kUpload;
  std::uint64_t number = 0;
  std::uint32_t size = 0;
};

struct ProbeAnswer {
  std::uint64_t number = 0;
  std::int64_t wall_ns = 0;  // the time of day there, since 1970
  bool ok = true;
  std::string text;  // what came of dialling back
};
inline constexpr std::size_t kMaxProbeDataBytes = kMaxProbeBodyBytes - 256;

// Bodies. Decoding reads all that it knows and ignores what a later minor version put behind it.
std::vector<std::byte> encode(const Hello& hello);
std::vector<std::byte> encode(const Chunk& chunk);  // kChunkHeadBytes, in front of the data
std::vector<std::byte> encode(const Acknowledge& acknowledge);
std::vector<std::byte> encode(const Heartbeat& heartbeat);
std::vector<std::byte> encode(const Goodbye& goodbye);
std::vector<std::byte> encode(const Probe& probe);
std::vector<std::byte> encode(const ProbeAnswer& answer);
// kUnsupported, with a sentence for both sides' users, where the major version is another one.
Result<Hello> decode_hello(ByteSpan body);
Result<Chunk> decode_chunk(ByteSpan head);
Result<Acknowledge> decode_acknowledge(ByteSpan body);
Result<Heartbeat> decode_heartbeat(ByteSpan body);
Result<Goodbye> decode_goodbye(ByteSpan body);
Result<Probe> decode_probe(ByteSpan body);
Result<ProbeAnswer> decode_probe_answer(ByteSpan body);

}  // namespace ravnest::wire
