// The parts of a checkpoint, put together by name into the whole model, and cut again for another plan.
//
// However many parts there are and whoever wrote them: tensors are found by the names that the model and its optimizer
// have for them, never by position. Nothing is copied: payloads are those of the parts (slices of mapped files), but
// for parameters of which each part has a piece, which are joined.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ravnest/archive/payload.h"
#include "ravnest/base/status.h"
#include "ravnest/checkpoint/folder.h"
#include "ravnest/checkpoint/part_file.h"

namespace ravnest::checkpoint {

struct Whole {
  std::string run;
  std::string plan;
  std::uint64_t updates = 0;
  std::vector<std::string> order;                                     // keys of the model's state dict
  archive::NamedPayloads weights;                                     // in that order; tied names share a storage
  archive::NamedPayloads buffers;                                     // by name
  OptimizerPart optimizer;                                            // groups' parameters in the model's order
  std::map<std::string, std::map<std::string, std::string>> records;  // by part, then record
  std::map<std::string, std::map<std::string, archive::NamedPayloads>> record_tensors;  // the same
};

// Of the parts of one copy of the model, in any order. Groups of different parts become one where they have the same
// number and the same options; where the parts disagree on that, those with the same options. kInvalid for parts that
// do not belong together (run, plan, update, order, copy, optimizer), with both values. kCorrupt, with the name and
// both parts: a weight, buffer or optimizer tensor that two parts have with different values, be it under a tied name;
// a parameter in two groups. kNotFound names the keys of the model that no part has, and pieces that are missing.
Result<Whole> assemble(const std::vector<Part>& parts);

// What a holder of these tensors needs of it: `weights` (keys of the state dict) and `buffers`, with what the optimizer
// keeps for the parameters among them. All groups are there, some perhaps without a parameter, so that groups keep
// their numbers. Records and who holds it are left to the caller. kNotFound names what the whole does not have: a model
// of other names.
Result<Part> select(const Whole& whole, const std::set<std::string>& weights, const std::set<std::string>& buffers);

// How many copies of the model the checkpoint has, 1 or more: one per cluster.
std::uint32_t copies(const Manifest& manifest);

// The names of the parts of one copy; `copy` counts round, so that the third of three clusters finds its weights in a
// checkpoint of two.
std::set<std::string> parts_of_copy(const Manifest& manifest, std::uint32_t copy);

// Reads the parts of one copy, counted as there, and assembles them. The parts must be what the manifest says they are
// (run, update, name): kCorrupt. kNotFound names the parts that are not in the folder and who has written them. Digests
// are not computed: verify.h.
Result<Whole> read_whole(const Checkpoint& checkpoint, std::uint32_t copy = 0);

// One part by its name, held against the manifest as above.
Result<Part> read_part_of(const Checkpoint& checkpoint, const std::string& name);

}  // namespace ravnest::checkpoint
