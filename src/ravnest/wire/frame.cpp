#include "ravnest/wire/frame.h"

#include <string_view>

#include "ravnest/base/printable.h"
#include "ravnest/codec/crc32c.h"
#include "ravnest/wire/fields.h"

namespace ravnest::wire {
namespace {

constexpr std::string_view kMagic = "ravnest\n";

std::size_t most_bytes(FrameKind kind) {
  switch (kind) {
    case FrameKind::kChunk: return kMaxChunkBodyBytes;
    case FrameKind::kProbe:
    case FrameKind::kProbeAnswer: return kMaxProbeBodyBytes;
    default: return kMaxSmallBodyBytes;
  }
}

template <class Body>
std::vector<std::byte> encode_body(const Body& body) {
  FieldWriter writer;
  Body fields_of = body;
  fields(writer, fields_of);
  return writer.bytes().take();
}

template <class Body>
Result<Body> decode_body(ByteSpan bytes, std::string_view what) {
  FieldReader reader(bytes);
  Body body;
  fields(reader, body);
  if (!reader.status().ok()) return reader.status().with_context(what);
  return body;
}

}  // namespace

void fields(auto& f, LaneProgress& lane) {
  f(lane.message);
  f(lane.offset);
  f(lane.consumed);
}

void fields(auto& f, Hello& hello) {
  f(hello.software);
  f(hello.plan);
  f(hello.from);
  f(hello.to);
  f(hello.purpose);
  f(hello.session);
  f(hello.peer_session);
  f(hello.received);
}

void fields(auto& f, Chunk& chunk) {
  f(chunk.message);
  f(chunk.message_size);
  f(chunk.offset);
}

void fields(auto& f, Acknowledge& acknowledge) { f(acknowledge.received); }

void fields(auto& f, Heartbeat& heartbeat) {
  f(heartbeat.sent_ns);
  f(heartbeat.echo_ns);
  f(heartbeat.held_ns);
}

void fields(auto& f, Goodbye& goodbye) {
  auto number = static_cast<std::uint8_t>(goodbye.code);
  f(number);
  goodbye.code = static_cast<GoodbyeCode>(number);
  f(goodbye.reason);
}

void fields(auto& f, Probe& probe) {
  f(probe.kind);
  f(probe.number);
  f(probe.size);
}

void fields(auto& f, ProbeAnswer& answer) {
  f(answer.number);
  f(answer.wall_ns);
  f(answer.ok);
  f(answer.text);
}

std::array<std::byte, kHeaderBytes> encode(const FrameHeader& header) {
  std::array<std::byte, kHeaderBytes> bytes{};
  bytes[0] = static_cast<std::byte>(header.kind);
  bytes[1] = static_cast<std::byte>(header.lane);
  std::memcpy(bytes.data() + 4, &header.size, 4);
  std::memcpy(bytes.data() + 8, &header.checksum, 4);
  const std::uint32_t own_checksum = codec::crc32c(ByteSpan(bytes).first(12));
  std::memcpy(bytes.data() + 12, &own_checksum, 4);
  return bytes;
}

Result<FrameHeader> decode_header(std::span<const std::byte, kHeaderBytes> bytes) {
  FieldReader reader(bytes);
  FrameHeader header;
  std::uint8_t kind = 0;
  std::uint16_t reserved = 0;
  std::uint32_t own_checksum = 0;
  reader(kind);
  reader(header.lane);
  reader(reserved);
  reader(header.size);
  reader(header.checksum);
  reader(own_checksum);
  if (own_checksum != codec::crc32c(bytes.first(kHeaderBytes - sizeof own_checksum))) {
    return corrupt("what came is not a frame: its header's checksum is wrong");
  }
  if (kind < static_cast<std::uint8_t>(FrameKind::kHello) ||
      kind > static_cast<std::uint8_t>(FrameKind::kProbeAnswer)) {
    return corrupt("a frame is of the unknown kind ", int{kind});
  }
  header.kind = static_cast<FrameKind>(kind);
  if (header.lane >= kLanes) return corrupt("a frame is of the unknown lane ", int{header.lane});
  if (header.size > most_bytes(header.kind))
    return corrupt("a frame of kind ", int{kind}, " says to have ", header.size, " bytes");
  if (header.kind == FrameKind::kChunk && header.size <= kChunkHeadBytes) return corrupt("a chunk has no data");
  return header;
}

std::vector<std::byte> encode(const Hello& hello) {
  FieldWriter writer;
  writer.bytes().string(kMagic);
  writer.bytes().u16(hello.major);
  writer.bytes().u16(hello.minor);
  Hello fields_of = hello;
  fields(writer, fields_of);
  return writer.bytes().take();
}

Result<Hello> decode_hello(ByteSpan body) {
  if (!as_string_view(body).starts_with(kMagic)) return corrupt("what came does not start like a ravnest node's hello");
  FieldReader reader(body.subspan(kMagic.size()));
  Hello hello;
  reader(hello.major);
  reader(hello.minor);
  if (reader.status().ok() && hello.major != kMajorVersion) {
    return unsupported("it speaks version ", hello.major, ".", hello.minor, " of the protocol, this node ",
                       kMajorVersion, ".", kMinorVersion, "; install the same release of ravnest on both");
  }
  fields(reader, hello);
  if (!reader.status().ok()) return reader.status().with_context("hello");
  return hello;
}

std::vector<std::byte> encode(const Chunk& chunk) { return encode_body(chunk); }
std::vector<std::byte> encode(const Acknowledge& acknowledge) { return encode_body(acknowledge); }
std::vector<std::byte> encode(const Heartbeat& heartbeat) { return encode_body(heartbeat); }
std::vector<std::byte> encode(const Goodbye& goodbye) { return encode_body(goodbye); }
std::vector<std::byte> encode(const Probe& probe) { return encode_body(probe); }
std::vector<std::byte> encode(const ProbeAnswer& answer) { return encode_body(answer); }

Result<Chunk> decode_chunk(ByteSpan head) { return decode_body<Chunk>(head, "chunk"); }
Result<Acknowledge> decode_acknowledge(ByteSpan body) { return decode_body<Acknowledge>(body, "acknowledgement"); }
Result<Heartbeat> decode_heartbeat(ByteSpan body) { return decode_body<Heartbeat>(body, "heartbeat"); }
Result<Goodbye> decode_goodbye(ByteSpan body) { return decode_body<Goodbye>(body, "goodbye"); }
Result<Probe> decode_probe(ByteSpan body) { return decode_body<Probe>(body, "probe"); }
Result<ProbeAnswer> decode_probe_answer(ByteSpan body) { return decode_body<ProbeAnswer>(body, "answer to a probe"); }

}  // namespace ravnest::wire
