// One part of a checkpoint: what one holder (a stage, a rank, later a shard) needs to go on, in a safetensors file.
//
// So that any tool reads the weights, the model's tensors stand in the file by the model's own names. Beside them:
//
//   buffer.NAME                   a buffer that training writes and the state dict does not have
//   optimizer.PARAMETER.TENSOR    what the optimizer keeps for a parameter: optimizer.conv.weight.exp_avg
//   record.RECORD.TENSOR          tensors of a record: record.criterion.margin
//
// What a tensor is, its name does not decide: the metadata do (`ravnest.tensors`), and a tensor that they do not name
// is one of the model's. A model may thus have weights that are called "optimizer.weight". Should it have one of the
// very name that another tensor would get, that other one has an underscore before its name.
//
// In the metadata are `format`, which is "pt" for readers that ask for it, and, each a JSON text:
//
//   ravnest.part        {"version": 1, "name": "stage_1", "copy": 0, "holder": "node_1", "run": "...", "plan": "...",
//                        "updates": 120}
//   ravnest.order       ["conv.weight", ...]: the keys of the whole model's state dict
//   ravnest.aliases     {"head.weight": "embedding.weight"}: names of a tensor that the file has under another one
//   ravnest.parameters  {"conv.weight": true, "frozen.weight": false}: which are parameters, and want a gradient
//   ravnest.tensors     {"buffer": {"buffer.b": "b"}, "optimizer": {"optimizer.w.exp_avg": ["w", "exp_avg"]},
//                        "record": {"record.criterion.m": ["criterion", "m"]}}
//   ravnest.optimizer   {"name": "Adam", "groups": [{"options": {"lr": 0.001}, "parameters": ["conv.weight"]}],
//                        "values": {"conv.weight": {"calls": 3}}}
//   ravnest.pieces      {"conv.weight": {"shape": [64, 3], "offset": 0, "length": 96}}: parameters of which this is a
//   part ravnest.records     {"schedules": "..."}
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/archive/elements.h"
#include "ravnest/archive/payload.h"
#include "ravnest/base/bytes.h"
#include "ravnest/base/status.h"
#include "ravnest/checkpoint/manifest.h"
#include "ravnest/optim/options.h"

namespace ravnest::checkpoint {

// What torch.optim calls a param group. A group of which this holder has no parameter may be there with none, so that
// groups keep their numbers. An option that is None is left out. Options keep their kind: 1.0 does not become 1.
struct OptimizerGroup {
  optim::Options options;
  std::vector<std::string> parameters;  // each in one group at most; of tied names any

  bool operator==(const OptimizerGroup&) const = default;
};

struct OptimizerPart {
  std::string name;  // "Adam"; empty: there is none
  std::vector<OptimizerGroup> groups;
  // By parameter, which need not be in `weights` (a backup may keep the state alone); one that was never updated has
  // nothing.
  std::map<std::string, archive::NamedPayloads> tensors;
  // The same for what is no tensor, as optimizers from Python may keep.
  std::map<std::string, optim::Options> values;
};

// A holder may have a run of a parameter's elements only, in row-major order: then the payload of the parameter, and
// each one of its optimizer's tensors that has one dimension of `length`, is that run; any other (a counter) is whole.
struct Piece {
  std::vector<std::int64_t> shape;  // of the whole parameter
  std::uint64_t offset = 0;         // in elements
  std::uint64_t length = 0;

  bool operator==(const Piece&) const = default;
};

struct Part {
  std::string name;        // "stage_1", "model", "cluster_1_stage_0": letters, digits and underscores
  std::uint32_t copy = 0;  // of the model: the cluster. The parts of one copy make up one model
  std::string holder;      // who wrote it: "node_1", "rank 0"
  std::string run;
  std::string plan;
  std::uint64_t updates = 0;
  std::vector<std::string> order;  // keys of the whole model's state dict
  archive::NamedPayloads weights;  // the holder's, by those keys; tied names share a storage and are written once
  archive::NamedPayloads buffers;  // that training writes and the state dict has not
  OptimizerPart optimizer;
  std::map<std::string, Piece> pieces;  // by parameter; those that are not here are whole
  // Small texts, by convention JSON, of whoever needs them: schedules, the criterion, rounds. This room only carries
  // them.
  std::map<std::string, std::string> records;
  std::map<std::string, archive::NamedPayloads> record_tensors;  // by record, which need not have a text
};

// Writes FOLDER/NAME.safetensors and says what the manifest has to know of it; makes the folders that are missing. The
// file appears whole or not at all, on the disk by the time this returns: where writing fails, a full disk among the
// reasons, what an earlier call wrote is still there, and what a writer that was killed left is removed by the next
// one. Strides may be any. kInvalid where the part contradicts itself or has a name that is not UTF-8, kUnsupported for
// types that safetensors has not (archive/weights/safetensors.h), else as AtomicFile. Safe from any thread; reads the
// payloads until it returns.
Result<PartEntry> write_part(const std::filesystem::path& folder, const Part& part);

// The same bytes into a sink, for those who have no file.
Result<PartEntry> write_part(const Part& part, const archive::Sink& sink);

// Trusts nothing. The payloads are contiguous slices of the mapped file, on storages of their own but for tied names,
// which share one; nothing is copied. Weights come in the model's order, with is_parameter and requires_grad as they
// were. kInvalid for a safetensors file of something else, kUnsupported for one of a later version, kCorrupt, with file
// and place, where it contradicts itself. A file of which pages were changed is not noticed here: verify.h.
Result<Part> read_part(const std::filesystem::path& path);
// The same of bytes that `owner` keeps alive; `what` is their name in messages.
Result<Part> read_part(ByteSpan bytes, std::shared_ptr<const void> owner, std::string_view what);

// Of these files, who wrote which: the first entries of `ravnest.part` alone. As read_part, but reads the header only.
struct PartOwner {
  std::string name;
  std::string holder;
  std::string run;
  std::uint64_t updates = 0;
};
Result<PartOwner> read_part_owner(const std::filesystem::path& path);

}  // namespace ravnest::checkpoint
