// Any bytes: the decoders of messages and frames answer, and what they accept is encoded and read again as the same.
// The first byte chooses the decoder.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <variant>
#include <vector>

#include "ravnest/wire/frame.h"
#include "ravnest/wire/message.h"
#include "ravnest/wire/testing/messages.h"

namespace {

using namespace ravnest;

void demand(bool holds) {
  if (!holds) std::abort();
}

// A decoder may ignore what stands behind its fields; then what it read is the start of the bytes.
template <class Decode>
void check_body(Decode decode, ByteSpan bytes) {
  const auto body = decode(bytes);
  if (!body.ok()) {
    demand(!body.status().message().empty());
    return;
  }
  const std::vector<std::byte> again = wire::encode(*body);
  demand(again.size() <= bytes.size() && std::ranges::equal(again, bytes.first(again.size())));
}

// What a receiver makes room for by a tensor's shape is in proportion to what came of it.
void check_tensor(const wire::Tensor& tensor) {
  constexpr std::uint64_t kElementsPerByte =
      65536 / 4;  // of top-k, at most: a count of 4 bytes for each 65536 elements
  const std::uint64_t elements = wire::element_count(tensor);
  demand(elements <= tensor.data.size() * kElementsPerByte);
  if (tensor.codec == codec::CodecKind::kNone || elements > (1U << 20)) return;
  std::vector<float> values(elements);
  const Status decoded = codec::decode(tensor.codec, tensor.data.bytes, values);
  demand(decoded.ok() || decoded.code() == Code::kCorrupt);
}

void check_tensors(const wire::Message& message) {
  if (const auto* forward = std::get_if<wire::Forward>(&message)) {
    for (const auto* edges : {&forward->tensors, &forward->model_inputs})
      for (const wire::EdgeTensor& edge : *edges) check_tensor(edge.tensor);
  } else if (const auto* backward = std::get_if<wire::Backward>(&message)) {
    for (const wire::EdgeTensor& edge : backward->tensors) check_tensor(edge.tensor);
  } else if (const auto* chunk = std::get_if<wire::RingChunk>(&message)) {
    check_tensor(chunk->tensor);
  } else if (const auto* report = std::get_if<wire::Report>(&message)) {
    for (const wire::Tensor& output : report->outputs) check_tensor(output);
  } else if (const auto* tied = std::get_if<wire::TiedTensors>(&message)) {
    for (const wire::NamedTensor& named : tied->tensors) check_tensor(named.tensor);
  }
}

void check_message(ByteSpan bytes) {
  const Slice buffer = wire::received(bytes);
  const auto message = wire::decode(buffer);
  if (!message.ok()) {
    demand(message.status().code() == Code::kCorrupt);
    return;
  }
  check_tensors(*message);
  // Padding and later fields may differ in the input; after one round they do not.
  const auto encoded = wire::encode(*message);
  demand(encoded.ok() && encoded->size <= bytes.size() + wire::kAlignment);
  const std::vector<std::byte> once = wire::joined(*encoded);
  const auto again = wire::decode(wire::received(once));
  demand(again.ok() && wire::joined(*wire::encode(*again)) == once);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  switch (data[0] % 9) {
    case 0: check_message(bytes); break;
    case 1: check_body(wire::decode_hello, bytes); break;
    case 2: check_body(wire::decode_chunk, bytes); break;
    case 3: check_body(wire::decode_acknowledge, bytes); break;
    case 4: check_body(wire::decode_heartbeat, bytes); break;
    case 5: check_body(wire::decode_goodbye, bytes); break;
    case 6: check_body(wire::decode_probe, bytes); break;
    case 7: check_body(wire::decode_probe_answer, bytes); break;
    default:
      if (bytes.size() < wire::kHeaderBytes) break;
      const auto header = wire::decode_header(bytes.first<wire::kHeaderBytes>());
      if (!header.ok()) break;
      // The reserved bytes are the only ones that are not kept, and they change the checksum.
      const auto again = wire::decode_header(wire::encode(*header));
      demand(again.ok() && again->kind == header->kind && again->lane == header->lane && again->size == header->size &&
             again->checksum == header->checksum);
  }
  return 0;
}
