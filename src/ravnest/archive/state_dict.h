// Files as torch.save leaves them and `torch.load(..., weights_only=True)` reads them.
//
// A zip archive of stored records (archive/zip.h) below one folder: `data.pkl`, a pickle in which tensors stand as
// persistent ids; `data/N`, the storages; `byteorder` and `version`. Tensors that share a storage share it in the file,
// and so again once loaded. What torch itself puts beside a module's state dict (`_metadata`, the versions of the
// modules' layouts) is not written; load_state_dict does without.
// Free functions over plain data; safe from any thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string_view>

#include "ravnest/archive/elements.h"
#include "ravnest/archive/payload.h"
#include "ravnest/archive/pickle.h"
#include "ravnest/base/status.h"

namespace ravnest::archive {

// Writes an OrderedDict of the tensors, in their order, none of which asks for a gradient, as in a state dict. `folder`
// is the archive's one folder: by custom the file's name without its ending. All is checked before the first byte:
// kInvalid for a name that is there twice or not UTF-8, kUnsupported, with the tensor's name, for types that torch.load
// knows no storage of (unsigned ones of more than 8 bits, float8, complex32) and for one storage under two types.
Status write_state_dict(const NamedPayloads& tensors, std::string_view folder, const Sink& sink);
// The file appears whole or not at all (AtomicFile).
Status write_state_dict(const std::filesystem::path& path, const NamedPayloads& tensors);

// The same for anything else that holds tensors, such as an optimizer's state: `body` writes one value to the pickle
// and calls `tensor(i)` where the i-th of `tensors` stands in it.
using PickleBody = std::function<void(PickleWriter& pickle, const std::function<void(std::size_t i)>& tensor)>;
Status write_torch_file(const NamedPayloads& tensors, const PickleBody& body, std::string_view folder,
                        const Sink& sink);

}  // namespace ravnest::archive
