// .npy files, read without Python.
//
// Trusts nothing: memory stays within a small multiple of what a file really holds, and contradictions are kCorrupt,
// with the file and the place in it. kNotFound and the like are those of base/file.h. `name` is the file, for messages.
// Pure functions, safe from any thread.
#pragma once

#include <filesystem>
#include <string_view>

#include "ravnest/archive/array.h"
#include "ravnest/base/slice.h"
#include "ravnest/base/status.h"

namespace ravnest::archive {

// The whole file, mapped for as long as a slice of it exists.
Result<Slice> map_file(const std::filesystem::path& path);

// numpy.save's format, versions 1 to 3, of numbers and truth values. Big-endian numbers, Fortran order, strings,
// records and objects (which would be a pickle) are kUnsupported.
Result<Array> read_npy(const std::filesystem::path& path);
Result<Array> decode_npy(const Slice& file, std::string_view name);

}  // namespace ravnest::archive
