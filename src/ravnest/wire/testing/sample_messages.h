// For tests of the wire: a message of each kind, and the way there and back.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "ravnest/wire/message.h"
#include "ravnest/wire/testing/messages.h"

namespace ravnest::wire {

inline PassHead sample_head() {
  return {.pass = 7,
          .kind = PassKind::kValidate,
          .step = 1u << 20,
          .batch = 5,
          .part = 1,
          .parts = 4,
          .weight = 0.25,
          .update = true,
          .updates = 3,
          .epoch = 2,
          .index = 11,
          .digest = 0x0123456789abcdef,
          .round = 12,
          .checkpoint = 13};
}

inline Forward sample_forward() {
  Forward forward{.head = sample_head(), .stage = 3, .tensors = {}, .model_inputs = {}};
  forward.tensors.push_back({5, true, tensor_of(DType::kFloat32, {2, 3}, 24)});
  forward.tensors.back().tensor.order = {1, 0};
  forward.tensors.push_back({6, false, tensor_of(DType::kInt64, {0, 4}, 0)});
  forward.tensors.push_back({7, false, tensor_of(DType::kUInt8, {}, 1, 9)});
  forward.tensors.push_back({8, false, tensor_of(DType::kBool, {65}, 65, 4)});
  return forward;
}

inline ClusterState sample_state() {
  return {.round = 16,
          .attempt = 17,
          .leader = 18,
          .entered = true,
          .finished = false,
          .newcomer = true,
          .complete = false,
          .weight = 0.5,
          .checkpoint = 23,
          .checkpoint_due = true,
          .missing = {19, 20},
          .companions = {21, 22}};
}

inline Ready sample_ready() {
  return {"train", {{"seed", "42"}, {"schedule", std::string("a\0b", 3)}}, {{"c3d4", 16, 97.25}, {"c3d4", 8, {}}}};
}

inline Account sample_account() {
  return {{.running_s = 62.5,
           .forward_s = 18.75,
           .backward_s = 37.5,
           .update_s = 3.125,
           .passes = 170,
           .updates = 85,
           .staleness_mean = 0.99,
           .staleness_most = 1,
           .versions_most = 2,
           .bytes_sent = 12'300'000,
           .bytes_received = 12'400'000,
           .tensor_bytes_sent = 12'000'000,
           .round_trip_s = 0.00021},
          "the disk is full"};
}

inline std::vector<Message> one_of_each() {
  return {sample_forward(),
          Backward{9, 2, {{1, false, tensor_of(DType::kBFloat16, {70}, 140)}}},
          RingChunk{4, 5, 6, 7, 8, 9, tensor_of(DType::kFloat32, {16}, 64)},
          sample_ready(),
          Report{13, 0.5, 64, 60, {tensor_of(DType::kFloat32, {2}, 8)}},
          TiedTensors{true, 14, 1, {{"head.weight", tensor_of(DType::kFloat32, {2}, 8)}}},
          Failed{2, true, "was lost"},
          Over{15, {true, "a1b2", 7, CheckpointRun{"c3d4", 16}}},
          Averaging(sample_state()),
          sample_account(),
          Closed{97.25, true, "node_1 (stage 1) failed: the disk is full"},
          Meeting(Join{4, "10.0.0.2", 40001, {{"model", "a1b2"}}}),
          Checkpointing(PartWritten{16, "{}", "the disk is full"})};
}

inline Result<Message> round_trip(const Message& message) {
  const auto encoded = encode(message);
  if (!encoded.ok()) return encoded.status();
  const std::vector<std::byte> bytes = joined(*encoded);
  EXPECT_EQ(bytes.size(), encoded->size);
  return decode(received(bytes));
}

}  // namespace ravnest::wire
