// What a checkpoint is: one state of a whole run, in a folder of its own.
//
//   checkpoints/update_000000120/
//     stage_0.safetensors, stage_1.safetensors   a file per part (part_file.h); of a data-parallel run
//     model.safetensors model.safetensors.index.json               which file has which tensor of the model, as readers
//     of sharded
//                                                safetensors expect it
//     manifest.json                              this; written last: a folder without it is no checkpoint
//
// The manifest is of the whole run and lists all parts, by whoever they were written. Where machines share no folder,
// each has the manifest, the index, and its own parts alone: so whoever decides that a checkpoint is complete (who has
// everybody's PartEntry) hands the finished manifest to all, and each writes it beside its parts. Where they share one,
// all write the same bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"

namespace ravnest::checkpoint {

// Of manifest.json and the parts' metadata. A later one is refused: kUnsupported, with both.
inline constexpr int kFormatVersion = 1;

// Where the data stand after the update: what the next batch is, and how much came before it.
struct DataPosition {
  std::uint64_t epoch = 0;    // of the next batch, or of the last one where it was the last of its epoch
  std::uint64_t index = 0;    // batches of that epoch that are in the weights, of each who feeds
  std::uint64_t samples = 0;  // of that epoch, of all who feed
  std::uint64_t batch = 0;    // of them, those of its first batch; 0: unknown
  std::uint64_t trained = 0;  // batches of all epochs
  // Keys of random numbers that were drawn: passes, several per batch where it is cut into microbatches, and those of
  // all ranks.
  std::uint64_t passes = 0;
  std::uint64_t sweep = 0;        // validations of every kind so far
  std::uint64_t validations = 0;  // those that have a line in val_accuracies.txt
  std::uint64_t validated = 0;    // `trained` when the last of those was over; 0: there was none
  double window_loss = 0;         // of batches that wait for their update, summed
  // That this copy of the model has been through; 0: as the checkpoint says, whose number may be that of another copy.
  std::uint64_t updates = 0;

  // A batch of the epoch is in the weights, of so many samples.
  void count_samples(std::uint64_t index_of_batch, std::uint64_t samples_of_batch) {
    if (index_of_batch == 0) batch = samples_of_batch;
    samples = (index_of_batch == 0 ? 0 : samples) + samples_of_batch;
  }

  bool operator==(const DataPosition&) const = default;
};

// What write_part says of a file.
struct PartEntry {
  std::string name;        // "stage_1"
  std::string file;        // in the checkpoint's folder
  std::string holder;      // who wrote it, for messages
  std::uint32_t copy = 0;  // which copy of the model it is a part of: the cluster
  std::uint64_t bytes = 0;
  std::string sha256;
  std::vector<std::string> tensors;  // of the model, which the file has under these names (not their aliases)
  std::uint64_t tensor_bytes = 0;    // that those take

  bool operator==(const PartEntry&) const = default;
};

struct Manifest {
  std::string run;       // an id of the run; one that is resumed keeps it
  std::string written;   // when, in UTC: "2026-11-19T12:00:00Z"
  std::string strategy;  // "pipeline", "ddp", "single"
  std::string plan;      // a pipeline's
  std::uint64_t updates = 0;
  std::uint64_t world = 1;  // who fed batches side by side
  DataPosition position;
  std::map<std::uint32_t, DataPosition> positions = {};  // of each copy of the model, where there are several
  std::optional<double> accuracy;                        // of the validation of these weights, in percent
  std::map<std::string, std::string> settings;           // that the run had, as users write them
  std::vector<std::string> order;                        // keys of the model's state dict
  std::vector<PartEntry> parts;                          // sorted by copy, then name, by encode

  bool operator==(const Manifest&) const = default;
};

bool has_part(const Manifest& manifest, std::string_view name);
// The copy of the model that the one of that number goes on from: its own, or where there is none another one's,
// counted round.
std::uint32_t copy_for(const Manifest& manifest, std::uint32_t number);
// Where the copy stands, with its updates.
DataPosition position_of(const Manifest& manifest, std::uint32_t copy);

// As JSON, for people too. The same manifest always gives the same bytes.
std::string encode(const Manifest& manifest);
// Trusts nothing: kCorrupt, with the place, for what is not a manifest, contradicts itself (two parts of one name or
// file), or names a file that is not one of the folder's own; kUnsupported for one of a later version. `what` is the
// text's name in messages.
Result<Manifest> decode_manifest(std::string_view json, std::string_view what);

// One entry alone, to be sent to whoever writes the manifest. Reading trusts nothing.
std::string encode(const PartEntry& part);
Result<PartEntry> decode_part_entry(std::string_view json, std::string_view what);

// model.safetensors.index.json: of each tensor of the model the file that has it, of the first copy of the model and
// there of the first part. Names that are aliases of another are left out, as they are by the libraries that read it.
std::string encode_index(const Manifest& manifest);
// Which file it says for which tensor. Trusts nothing: a name that is not a part's file is kCorrupt.
Result<std::map<std::string, std::string>> decode_index(std::string_view json, std::string_view what);

// Writes the index and then the manifest into the folder, each whole or not at all and on the disk: from then on the
// checkpoint is there. May be called again with what was learned since (the accuracy). kInvalid for names that are not
// UTF-8 and for parts that decode_manifest would refuse.
Status write_manifest(const std::filesystem::path& folder, const Manifest& manifest);
// kNotFound where the folder has none.
Result<Manifest> read_manifest(const std::filesystem::path& folder);

}  // namespace ravnest::checkpoint
