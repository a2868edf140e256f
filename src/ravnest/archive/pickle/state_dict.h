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
#include <memory>
#include <string_view>

#include "ravnest/archive/elements.h"
#include "ravnest/archive/payload.h"
#include "ravnest/archive/pickle/pickle.h"
#include "ravnest/base/bytes.h"
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

// Reads a state dict that torch.save of 1.6 or later has written, without running its pickle (pickle_read.h). Trusts
// nothing: what is neither data nor the making of a tensor from a storage is kUnsupported, by its name; so are tensors
// that are quantized, sparse, conjugated or big-endian, and the files of older releases, which are no zip. kCorrupt,
// with the tensor's name, where the file contradicts itself.
//
// The tensors come in the order of the dict, with the strides that they were saved with; those that shared memory share
// a storage, a slice of `bytes`, which `owner` keeps alive. Nothing is copied. Where the file is not a state dict but
// has one or several among its entries, as checkpoints do, `entry` says which; left empty, it is the only one.
// kInvalid, with the names of those that are there, where that is not clear, and for a file of something else: an
// optimizer's state, a TorchScript or captured model. `what` is the file, for messages.
Result<NamedPayloads> read_state_dict(ByteSpan bytes, std::shared_ptr<const void> owner, std::string_view what,
                                      std::string_view entry = "");

}  // namespace ravnest::archive
