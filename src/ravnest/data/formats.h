// The files that data sets come in, read without Python.
//
// Readers trust nothing: whatever a file says, memory stays within a small multiple of what it really holds (of what it
// unpacks to, for .gz), and contradictions are kCorrupt, with the file and the place in it. kUnsupported is what is
// well-formed but not read here, with what to do about it; kNotFound and the like are those of base/file.h.
// Each `read_...` is its `decode_...` on a mapped file; what is not converted stays there. The `name` of a decoder is
// the file, for messages. Pure functions, safe from any thread.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "ravnest/archive/npy.h"
#include "ravnest/base/slice.h"
#include "ravnest/base/status.h"
#include "ravnest/data/samples.h"

namespace ravnest::data {

// The format of MNIST and its relatives, as it is or compressed by gzip.
Result<archive::Array> read_idx(const std::filesystem::path& path);
Result<archive::Array> decode_idx(const Slice& file, std::string_view name);

// A tensor of a safetensors file (archive/weights/safetensors.h): its only one, or the one that is called `tensor`.
// kInvalid, with the names there are, where that is not clear.
Result<archive::Array> read_safetensors(const std::filesystem::path& path, std::string_view tensor);
Result<archive::Array> decode_safetensors(const Slice& file, std::string_view tensor, std::string_view name);

// CIFAR-10, "binary version": inputs uint8 [n, 3, 32, 32], targets int64 [n] from 0 to 9.
Result<Samples> read_cifar(const std::vector<std::filesystem::path>& paths);
Result<Samples> decode_cifar(const std::vector<Slice>& files, const std::vector<std::string>& names);

// scikit-learn's digits.csv or digits.csv.gz, lines of 64 numbers and the digit: inputs float32 [n, 1, 8, 8], as they
// stand there (0 to 16), targets int64 [n].
Result<Samples> read_digits(const std::filesystem::path& path);
Result<Samples> decode_digits(const Slice& file, std::string_view name);

}  // namespace ravnest::data
