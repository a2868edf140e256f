#include "ravnest/wire/message.h"

#include <algorithm>
#include <array>
#include <cmath>
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

// Whether the tensor's bytes are as many as its type, shape and codec say; of top-k, whether they may be.
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
  if (codec::is_encoded_size(tensor.codec, *count, tensor.data.size())) return {};
  return corrupt("a compressed tensor of ", *count, " elements has ", tensor.data.size(),
                 " bytes, which no encoding of it has");
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
  f(head.checkpoint);
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

void fields(auto& f, ClusterState& state) {
  f(state.round);
  f(state.attempt);
  f(state.leader);
  f(state.entered);
  f(state.finished);
  f(state.newcomer);
  f(state.complete);
  f(state.weight);
  f(state.checkpoint);
  f(state.checkpoint_due);
  f(state.missing);
  f(state.companions);
}

void fields(auto& f, Attempt& attempt) {
  f(attempt.round);
  f(attempt.attempt);
  f(attempt.participants);
  f(attempt.last);
  f(attempt.whole);
  f(attempt.checkpoint);
  f(attempt.checkpoint_next);
}

void fields(auto& f, CommitAttempt& commit) {
  f(commit.round);
  f(commit.attempt);
}

void fields(auto& f, CallRound& call) { f(call.round); }

void fields(auto& f, SendOut& out) {
  f(out.round);
  f(out.attempt);
  f(out.alone);
}

void fields(auto& f, AttemptComplete& complete) { f(complete.attempt); }

void fields(auto& f, ClusterMissing& missing) {
  f(missing.attempt);
  f(missing.cluster);
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

void fields(auto& f, Setting& setting) {
  f(setting.name);
  f(setting.value);
}

void fields(auto& f, ReadableCheckpoint& checkpoint) {
  f(checkpoint.run);
  f(checkpoint.updates);
  f(checkpoint.accuracy);
}

void fields(auto& f, Ready& ready) {
  f(ready.call);
  f(ready.settings);
  f(ready.checkpoints);
}

void fields(auto& f, Join& join) {
  f(join.world);
  f(join.host);
  f(join.port);
  f(join.settings);
}

void fields(auto& f, RankAddress& address) {
  f(address.host);
  f(address.port);
}

void fields(auto& f, Table& table) { f(table.addresses); }

void fields(auto& /*f*/, Connected& /*connected*/) {}

void fields(auto& /*f*/, AllConnected& /*connected*/) {}

void fields(auto& f, CheckpointRun& run) {
  f(run.run);
  f(run.updates);
  f(run.joins);
}

void fields(auto& f, Task& task) {
  f(task.save);
  f(task.run);
  f(task.epochs);
  f(task.checkpoints);
}

void fields(auto& f, PartWritten& written) {
  f(written.checkpoint);
  f(written.part);
  f(written.failure);
}

void fields(auto& f, CheckpointOver& over) {
  f(over.checkpoint);
  f(over.manifest);
}

void fields(auto& f, EndWanted& wanted) { f(wanted.why); }

void fields(auto& f, PartUploaded& uploaded) {
  f(uploaded.checkpoint);
  f(uploaded.failure);
}

void fields(auto& f, ClusterParts& parts) {
  f(parts.checkpoint);
  f(parts.manifest);
  f(parts.failure);
}

void fields(auto& f, RunOffer& offer) {
  f(offer.wanted);
  f(offer.checkpoints);
}

void fields(auto& f, RunChosen& chosen) {
  f(chosen.run);
  f(chosen.clusters);
  f(chosen.failure);
}

void fields(auto& f, Over& over) {
  f(over.passes);
  f(over.task);
}

// A time or a mean. What is none is written as 0: an account must not fail for a 0/0. Who reads one that is none has it
// from a node that lies.
void measured(auto& f, double& value) {
  const auto is_measured = [](double number) { return std::isfinite(number) && number >= 0; };
  double number = is_measured(value) ? value : 0;
  f(number);
  if constexpr (std::remove_reference_t<decltype(f)>::kReads) {
    if (!is_measured(number)) f.fail(corrupt("a node measured ", number, ", which must be at least 0"));
    value = number;
  }
}

void fields(auto& f, NodeWork& work) {
  measured(f, work.running_s);
  measured(f, work.forward_s);
  measured(f, work.backward_s);
  measured(f, work.update_s);
  f(work.passes);
  f(work.updates);
  measured(f, work.staleness_mean);
  f(work.staleness_most);
  f(work.versions_most);
  f(work.bytes_sent);
  f(work.bytes_received);
  f(work.tensor_bytes_sent);
  measured(f, work.round_trip_s);
}

void fields(auto& f, Account& account) {
  f(account.work);
  f(account.unsaved);
}

void fields(auto& f, Closed& closed) {
  f(closed.accuracy);
  f(closed.goes_on);
  f(closed.unsaved);
  f(closed.ended_early);
}

std::uint64_t element_count(const Tensor& tensor) {
  std::uint64_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= static_cast<std::uint64_t>(size);
  return count;
}

Result<EncodedMessage> encode(const Message& message) {
  FieldWriter writer;
  writer.bytes().u32(0);
  // The description is shared with the reader, which changes the fields; a writer only looks at them.
  writer(const_cast<Message&>(message));
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
  FieldReader start(received.bytes);
  start(fields_size);
  if (!start.status().ok()) return start.status().with_context("a message");
  if (fields_size < sizeof fields_size || fields_size > received.size() || fields_size > kMaxHeadBytes) {
    return corrupt("a message of ", received.size(), " bytes says that its fields take ", fields_size);
  }
  if (received.size() > fields_size && received.size() <= aligned(fields_size)) {
    return corrupt("a message has bytes that belong to none of its tensors");
  }
  const std::uint64_t payload_at = std::min<std::uint64_t>(aligned(fields_size), received.size());
  FieldReader reader(received.bytes.first(fields_size).subspan(sizeof fields_size),
                     received.part(payload_at, received.size() - payload_at));
  Message message;
  reader(message);
  if (!reader.status().ok()) return reader.status().with_context("a message");
  if (!reader.payload_is_taken()) return corrupt("a message has bytes that belong to none of its tensors");
  return message;
}

}  // namespace ravnest::wire
