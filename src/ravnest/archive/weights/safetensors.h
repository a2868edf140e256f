// Tensors by name in one file, as safetensors has them: a file that any tool reads and that can hold nothing but data.
//
//   8 bytes       N, the length of the header, little-endian
//   N bytes       the header, JSON, spaces behind it: {"__metadata__": {"key": "text"},
//                 "NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
//   the rest      the elements, row-major and little-endian; offsets count from here, without gaps or overlaps
//
// What is written starts its elements at a multiple of 8 bytes and every tensor at a multiple of its item size: tensors
// with larger items come first, else they keep their order. Types: bool, uint8, int8, int16, int32, int64, float16,
// bfloat16, float32 and float64; any other is kUnsupported, with its name.
// Free functions over plain data; safe from any thread.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "ravnest/archive/elements.h"
#include "ravnest/archive/payload.h"
#include "ravnest/base/bytes.h"
#include "ravnest/base/status.h"

namespace ravnest::archive {

struct Safetensors {
  std::map<std::string, std::string> metadata;
  NamedPayloads tensors;
};

// A longer header is refused on both ways, as the format's own reader does.
inline constexpr std::uint64_t kMostHeaderBytes = 100'000'000;

// Everything is checked before the first byte goes to the sink; kInvalid for names that the file cannot have: twice the
// same, `__metadata__`, or not UTF-8. Strides may be any; tensors that share memory are written out each.
Status write_safetensors(const Safetensors& contents, const Sink& sink);
// The file appears whole or not at all (AtomicFile).
Status write_safetensors(const std::filesystem::path& path, const Safetensors& contents);

// Trusts nothing: kCorrupt, with `what` and the place in the header, unless the tensors of the header fill the file
// exactly. Nothing is copied: each tensor has a storage of its own, a slice of `bytes`, which `owner` keeps alive. The
// slices of files by other tools need not be aligned. The tensors come in the order of their bytes. Memory is
// proportional to the header, which is never longer than the file.
Result<Safetensors> read_safetensors(ByteSpan bytes, std::shared_ptr<const void> owner, std::string_view what);
// The same of a mapped file.
Result<Safetensors> read_safetensors(const std::filesystem::path& path);

}  // namespace ravnest::archive
