// For this folder's tests: folders, tensors and stages to save. Not part of any library.
#pragma once

#include <string>
#include <vector>

#include "ravnest/archive/testing/payloads.h"
#include "ravnest/base/bytes.h"
#include "ravnest/base/testing/folders.h"
#include "ravnest/checkpoint/stage_file.h"

namespace ravnest::checkpoint::testing {

using archive::testing::elements;
using archive::testing::float_payload;
using archive::testing::floats_of;
using archive::testing::into;
using archive::testing::names_of;
using archive::testing::payload_of;
using archive::testing::same_elements;
using test::contents_of;
using test::TemporaryFolder;

// One of three stages of a small model, as its node has it after 7 updates.
inline SavedStage stage_of_three(int stage) {
  SavedStage saved{.plan = "plan a",
                   .run = "run 1",
                   .node = text("node_", stage),
                   .cluster = 0,
                   .stage = stage,
                   .stages = 3,
                   .updates = 7,
                   .order = {"z.weight", "z.bias", "m.weight", "m.steps", "a.weight"},
                   .weights = {},
                   .nodes = {"node_0", "node_1", "node_2"}};
  if (stage == 0)
    saved.weights = {{"z.weight", float_payload({2, 2}, {1, 2, 3, 4})}, {"z.bias", float_payload({2}, {5, 6})}};
  if (stage == 1)
    saved.weights = {{"m.weight", float_payload({1}, {7})},
                     {"m.steps", payload_of<std::int64_t>(DType::kInt64, {}, {12})}};
  if (stage == 2) saved.weights = {{"a.weight", float_payload({2}, {8, 9})}};
  return saved;
}

}  // namespace ravnest::checkpoint::testing
