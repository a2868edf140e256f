// Other values for the weights of a model.
#pragma once

#include <filesystem>
#include <string_view>

#include "ravnest/archive/payload.h"
#include "ravnest/base/status.h"
#include "ravnest/graph/ir/graph.h"

namespace ravnest::ir {

// Puts `values`, as a file of weights has them (archive/weights/weights.h), into the model. They have to be those of
// its state dict, each with the model's own type and sizes; in any order, and with any strides. kInvalid otherwise,
// with the names that are missing, too much or of another kind; `what` is the file. The model is then as it was.
//
// Which names are one tensor is the model's business. So where it has one tensor under several names, one of them is
// enough, and kInvalid says where there are several with other values. Names that are one tensor in the file, or share
// its memory, and are not one in the model, come apart.
Status replace_weights(Model& model, const archive::NamedPayloads& values, std::string_view what);

// The same from a file: safetensors or of torch.save, and where it has several state dicts, the one under `entry`.
Status load_weights(Model& model, const std::filesystem::path& file, std::string_view entry = "");

}  // namespace ravnest::ir
