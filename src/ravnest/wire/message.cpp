#include "ravnest/wire/message.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "ravnest/wire/fields.h"

namespace ravnest::wire {
namespace {

constexpr std::size_t kMaxRank = 64;
constexpr std::array<std::byte, kAlignment> kZeros{};

// The elements of a shape, or the reason why there can't be so many. Bounded such that bytes fit into 63 bits.
Result<std::uint64_t> checked_count(const std::vector<std::int64_t>& shape) {
  if (shape.size() > kMaxRank)
    return corrupt("a tensor has ", shape.size(), " dimensions; at most ", kMaxRank, " can be sent");
  constexpr std::uint64_t kMost = std::uint64_t{1} << 58;
  std::uint64_t count = 1;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) return corrupt("a tensor's dimension is ", size);
    empty |= size == 0;
    if (size == 0) continue;
    if (static_cast<std::uint64_t>(size) > kMost / count) return corrupt("a tensor's shape has too many elements");
    count *= static_cast<std::uint64_t>(size);
  }
  return empty ? 0 : count;
}

// Whether the dimensions' order, if it has one, names each of them once.
Status check_order(const Tensor& tensor) {
  if (tensor.order.empty()) return {};
  std::vector<bool> named(tensor.shape.size());
  for (const std::uint8_t dimension : tensor.order) {
    if (dimension >= named.size() || named[dimension]) return corrupt("a tensor's dimensions have no such order");
    named[dimension] = true;
  }
  if (tensor.order.size() == named.size()) return {};
  return corrupt("the order of a tensor's ", named.size(), " dimensions has ", tensor.order.size());
}

// Whether the tensor's bytes are as many as its type, shape and codec say. Top-k's own head says how many it kept: its
// decoder checks that.
Status check_size(const Tensor& tensor) {
  const auto count = checked_count(tensor.shape);
  if (!count.ok()) return count.status();
  if (tensor.codec == codec::CodecKind::kNone) {
    const std::uint64_t expected = *count * item_size(tensor.dtype);
    if (tensor.data.size() == expected) return {};
    return corrupt("a tensor of ", *count, " elements of ", dtype_name(tensor.dtype), " has ", tensor.data.size(),
                   " bytes instead of ", expected);
  }
  if (tensor.dtype != DType::kFloat32) {
    return corrupt("a compressed tensor is of ", dtype_name(tensor.dtype), "; only float32 is compressed");
  }
  if (tensor.codec == codec::CodecKind::kTopK) return {};
  const std::uint64_t expected = codec::encoded_size({tensor.codec, 1}, *count);
  if (tensor.data.size() == expected) return {};
  return corrupt("a compressed tensor of ", *count, " elements has ", tensor.data.size(), " bytes instead of ",
                 expected);
}

}  // namespace

// Its type is the archive format's number for it, which is stable.
void fields(auto& f, Tensor& tensor) {
  constexpr bool kReads = std::remove_reference_t<decltype(f)>::kReads;
  if constexpr (!kReads) {
    f.fail(check_size(tensor));
    f.fail(check_order(tensor));
  }
  auto dtype = static_cast<std::uint8_t>(schema_number(tensor.dtype));
  std::uint64_t size = tensor.data.size();
  f(dtype);
  f(tensor.codec);
  f(tensor.shape);
  f(tensor.order);
  f(size);
  if constexpr (kReads) {
    const auto known = dtype_from_schema(dtype);
    if (!known) f.fail(corrupt("a tensor is of the unknown type ", int{dtype}));
    tensor.dtype = known.value_or(DType::kFloat32);
    tensor.data = f.take_payload(size);
    f.fail(check_size(tensor));
    f.fail(check_order(tensor));
  } else {
    f.add_payload(tensor.data);
  }
}

void fields(auto& f, EdgeTensor& edge) {
  f(edge.index);
  f(edge.wants_gradient);
  f(edge.tensor);
}

void fields(auto& f, NamedTensor& named) {
  f(named.name);
  f(named.tensor);
}

void fields(auto& f, PassHead& head) {
  f(head.pass);
  f(head.kind);
  f(head.step);
  f(head.batch);
  f(head.part);
  f(head.parts);
  f(head.weight);
  f(head.update);
  f(head.updates);
  f(head.epoch);
  f(head.index);
  f(head.digest);
  f(head.round);
}

void fields(auto& f, Forward& forward) {
  f(forward.head);
  f(forward.stage);
  f(forward.tensors);
  f(forward.model_inputs);
}

void fields(auto& f, Backward& backward) {
  f(backward.pass);
  f(backward.stage);
  f(backward.tensors);
}

void fields(auto& f, RingChunk& chunk) {
  f(chunk.round);
  f(chunk.attempt);
  f(chunk.vector);
  f(chunk.segment);
  f(chunk.chunk);
  f(chunk.hop);
  f(chunk.tensor);
}

void fields(auto& f, Participant& participant) {
  f(participant.cluster);
  f(participant.weight);
}

void fields(auto& f, Averaging& averaging) {
  f(averaging.kind);
  f(averaging.round);
  f(averaging.attempt);
  f(averaging.leader);
  f(averaging.entered);
  f(averaging.finished);
  f(averaging.newcomer);
  f(averaging.complete);
  f(averaging.weight);
  f(averaging.missing);
  f(averaging.participants);
  f(averaging.last);
  f(averaging.whole);
}

void fields(auto& f, Control& control) {
  f(control.kind);
  f(control.body);
}

void fields(auto& f, Report& report) {
  f(report.pass);
  f(report.loss);
  f(report.samples);
  f(report.correct);
  f(report.outputs);
}

void fields(auto& f, TiedTensors& tied) {
  f(tied.gradients);
  f(tied.number);
  f(tied.stage);
  f(tied.tensors);
}

void fields(auto& f, Failed& failed) {
  f(failed.stage);
  f(failed.lost);
  f(failed.reason);
}

void fields(auto& f, Over& over) {
  f(over.passes);
  f(over.task);
}

namespace {

// The alternative of that number, empty.
template <std::size_t... Is>
std::optional<Message> empty_message(std::size_t kind, std::index_sequence<Is...>) {
  std::optional<Message> message;
  ((kind == Is ? void(message.emplace(std::in_place_index<Is>)) : void()), ...);
  return message;
}

}  // namespace

std::uint64_t element_count(const Tensor& tensor) {
  std::uint64_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= static_cast<std::uint64_t>(size);
  return count;
}

Result<EncodedMessage> encode(const Message& message) {
  FieldWriter writer;
  writer.bytes().u32(0);
  writer.bytes().u8(static_cast<std::uint8_t>(message.index()));
  // The description is shared with the reader, which changes the fields; a writer only looks at them.
  std::visit([&](const auto& kind) { fields(writer, const_cast<std::remove_cvref_t<decltype(kind)>&>(kind)); },
             message);
  if (!writer.status().ok()) return invalid(writer.status().message());
  const std::size_t fields_size = writer.bytes().size();
  if (fields_size > kMaxHeadBytes) return invalid("a message's fields take more than ", kMaxHeadBytes, " bytes");
  if (Status patched = writer.bytes().patch_u32(0, static_cast<std::uint32_t>(fields_size)); !patched.ok())
    return patched;

  EncodedMessage encoded;
  const auto add = [&](Slice slice) {
    if (slice.size() == 0) return;
    encoded.size += slice.size();
    encoded.parts.push_back(std::move(slice));
  };
  const auto pad = [&] { add({ByteSpan(kZeros).first(aligned(encoded.size) - encoded.size), nullptr}); };
  add(slice_of(writer.bytes().take()));
  for (const Slice& data : writer.payload()) {
    if (data.size() > 0) pad();
    add(data);
  }
  return encoded;
}

Result<Message> decode(const Slice& received) {
  std::uint32_t fields_size = 0;
  std::uint8_t kind = 0;
  FieldReader start(received.bytes);
  start(fields_size);
  start(kind);
  if (!start.status().ok()) return start.status().with_context("a message");
  constexpr std::size_t kStart = sizeof fields_size + sizeof kind;
  if (fields_size < kStart || fields_size > received.size() || fields_size > kMaxHeadBytes) {
    return corrupt("a message of ", received.size(), " bytes says that its fields take ", fields_size);
  }
  auto message = empty_message(kind, std::make_index_sequence<std::variant_size_v<Message>>());
  if (!message) return corrupt("a message is of the unknown kind ", int{kind});
  if (received.size() > fields_size && received.size() <= aligned(fields_size)) {
    return corrupt("a message has bytes that belong to none of its tensors");
  }
  const std::uint64_t payload_at = std::min<std::uint64_t>(aligned(fields_size), received.size());
  FieldReader reader(received.bytes.subspan(kStart, fields_size - kStart),
                     received.part(payload_at, received.size() - payload_at));
  std::visit([&](auto& alternative) { fields(reader, alternative); }, *message);
  if (!reader.status().ok()) return reader.status().with_context("a message");
  if (!reader.payload_is_taken()) return corrupt("a message has bytes that belong to none of its tensors");
  return std::move(*message);
}

}  // namespace ravnest::wire
