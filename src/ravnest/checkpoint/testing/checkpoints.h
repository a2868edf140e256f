// For this folder's tests: parts of a small model that Adam trains, and checkpoints of them. Not part of any library.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/checkpoint/assemble.h"
#include "ravnest/checkpoint/folder.h"
#include "ravnest/checkpoint/part_file.h"
#include "ravnest/checkpoint/testing/saved_stage.h"

namespace ravnest::checkpoint::testing {

inline archive::Payload parameter(archive::Payload payload, bool trained = true) {
  payload.is_parameter = true;
  payload.requires_grad = trained;
  return payload;
}

inline archive::NamedPayloads moments(std::vector<std::int64_t> sizes, std::vector<float> values, float step) {
  return {{"exp_avg", float_payload(sizes, values)}, {"step", float_payload({}, {step})}};
}

// The model: embedding.weight, which is tied to head.weight; body.weight; body.running_mean, a buffer; body.frozen.
inline const std::vector<std::string>& small_order() {
  static const std::vector<std::string> order = {"embedding.weight", "body.weight", "body.frozen", "body.running_mean",
                                                 "head.weight"};
  return order;
}

// One of two stages, after so many updates. The second has the tied weight too, under both names, but keeps no state
// for it.
inline Part small_stage(int stage, std::uint64_t updates = 120, const std::string& run = "run a") {
  const auto shift = static_cast<float>(updates);
  Part part;
  part.name = text("stage_", stage);
  part.holder = text("node_", stage);
  part.run = run;
  part.plan = "plan a";
  part.updates = updates;
  part.order = small_order();
  part.optimizer.name = "Adam";
  part.optimizer.groups = {
      {{{"lr", 1.0}, {"betas", std::vector<double>{0.9, 0.999}}, {"amsgrad", false}, {"steps", std::int64_t{3}}}, {}}};
  const archive::Payload tied = parameter(float_payload({2, 2}, {shift, 2, 3, 4}));
  if (stage == 0) {
    part.weights = {{"embedding.weight", tied}};
    part.optimizer.groups[0].parameters = {"embedding.weight"};
    part.optimizer.tensors["embedding.weight"] = moments({2, 2}, {5, 6, 7, 8}, shift);
    part.records["schedules"] = "{\"steps\":3}";
  } else {
    part.weights = {{"body.weight", parameter(float_payload({3}, {9, 10, shift}))},
                    {"body.frozen", parameter(float_payload({1}, {11}), false)},
                    {"body.running_mean", float_payload({2}, {12, 13})},
                    {"embedding.weight", tied},
                    {"head.weight", tied}};
    part.buffers = {{"body.mask", payload_of<std::uint8_t>(DType::kBool, {3}, {0, 1, 1})}};
    part.optimizer.groups[0].parameters = {"body.weight"};
    part.optimizer.tensors["body.weight"] = moments({3}, {14, 15, 16}, shift);
    part.optimizer.values["body.weight"] = {{"calls", std::int64_t{2}}, {"decay", 0.5}};
    part.record_tensors["criterion"] = {{"margin", float_payload({1}, {17})}};
  }
  return part;
}

// As both stages and whoever completes it leave it.
inline Checkpoint write_small(const std::filesystem::path& root, std::uint64_t updates = 120,
                              const std::string& run = "run a", std::optional<double> accuracy = std::nullopt) {
  Checkpoint checkpoint{checkpoint_folder(root, updates), {}};
  checkpoint.manifest.run = run;
  checkpoint.manifest.written = "2026-11-19T12:00:00Z";
  checkpoint.manifest.strategy = "pipeline";
  checkpoint.manifest.plan = "plan a";
  checkpoint.manifest.updates = updates;
  checkpoint.manifest.position = {.epoch = 1, .index = 2, .samples = 64, .trained = updates, .passes = updates};
  checkpoint.manifest.accuracy = accuracy;
  checkpoint.manifest.settings = {{"optimizer", "Adam"}, {"seed", "42"}};
  checkpoint.manifest.order = small_order();
  for (const int stage : {0, 1})
    checkpoint.manifest.parts.push_back(write_part(checkpoint.folder, small_stage(stage, updates, run)).value());
  const Status status = write_manifest(checkpoint.folder, checkpoint.manifest);
  if (!status.ok()) throw std::runtime_error(status.message());
  return checkpoint;
}

inline const archive::Payload& tensor(const archive::NamedPayloads& tensors, std::string_view name) {
  for (const auto& [each, payload] : tensors) {
    if (each == name) return payload;
  }
  throw std::runtime_error(text("no tensor ", name));
}

// All that a part says, for comparisons: names, types, elements, options.
inline std::string told(const Part& part) {
  std::string words = text(part.name, ' ', part.copy, ' ', part.holder, ' ', part.run, ' ', part.plan, ' ',
                           part.updates, '\n', join(part.order), '\n');
  const auto add = [&](const std::string& title, archive::NamedPayloads tensors) {
    std::ranges::sort(tensors, {}, &archive::NamedPayloads::value_type::first);
    words += title + "\n" + archive::testing::shown(tensors);
    for (const auto& [name, payload] : tensors) {
      for (const std::byte byte : elements(payload)) words += text(static_cast<int>(byte), ' ');
    }
    words += '\n';
  };
  add("weights", part.weights);
  add("buffers", part.buffers);
  for (const auto& [parameter, tensors] : part.optimizer.tensors) add("optimizer " + parameter, tensors);
  for (const auto& [record, tensors] : part.record_tensors) add("record " + record, tensors);
  for (const auto& [record, content] : part.records) words += record + ": " + content + "\n";
  return words;
}

}  // namespace ravnest::checkpoint::testing
