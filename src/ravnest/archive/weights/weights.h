// The weights of a model in a file, of whatever kind: safetensors (.safetensors), or torch.save's (.pt, .pth, .bin).
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "ravnest/archive/payload.h"
#include "ravnest/base/bytes.h"
#include "ravnest/base/status.h"

namespace ravnest::archive {

// What a file is, its first bytes say, not its name. Read as by read_safetensors, in the order of the bytes, or
// read_state_dict, whose `entry` this is; kInvalid for one of safetensors, which has no entries. Nothing is copied:
// `owner` keeps the bytes alive. `what` is the file, for messages.
Result<NamedPayloads> read_weights(ByteSpan bytes, std::shared_ptr<const void> owner, std::string_view what,
                                   std::string_view entry = "");
// The same of a mapped file.
Result<NamedPayloads> read_weights(const std::filesystem::path& path, std::string_view entry = "");

}  // namespace ravnest::archive
