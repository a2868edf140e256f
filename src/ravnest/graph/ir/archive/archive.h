// `.pt2` archives on disk.
//
// What we write is an ordinary archive of the training graph: `torch.export.load` opens and runs it. The eval graph,
// and what a stage knows of its chain, travel in `extra/ravnest/`, which torch ignores. The format is described in
// docs/archive.md.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "ravnest/base/bytes.h"
#include "ravnest/base/status.h"
#include "ravnest/graph/ir/graph.h"

namespace ravnest::ir {

// The model's storages are slices of the mapped file, which they keep open. An archive that torch.export.save wrote
// has one graph, which then serves for training and eval alike.
Result<Model> read_archive(const std::filesystem::path& path);

// The same from memory; `owner` keeps `bytes` alive. `what` names the archive in errors.
Result<Model> read_archive(ByteSpan bytes, std::shared_ptr<const void> owner, std::string_view what);

// Replaces `path` in one step, or leaves it as it was.
Status write_archive(const Model& model, const std::filesystem::path& path);

// The same to anywhere: `sink` takes the bytes in order. `name` is what torch calls the archive, a file's stem.
Status write_archive(const Model& model, const std::string& name, const std::function<Status(ByteSpan)>& sink);

// One archive from two captures of one module, in training and in eval mode, over the weights of the first.
// kInvalid where the two do not have the same weights.
Result<Model> merge_captures(Model train, Model eval);

}  // namespace ravnest::ir
