// Numbers from a file, as they lie in memory, without torch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/dtype.h"
#include "ravnest/base/slice.h"
#include "ravnest/base/status.h"

namespace ravnest::archive {

// Little-endian, the last dimension together (C order), and aligned to its elements. The bytes are exactly those of the
// shape, and may be a mapped file: never write to them. A plain value; copying it shares the bytes.
struct Array {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  Slice bytes;

  // The first dimension; 0 of an array without one.
  std::int64_t rows() const { return shape.empty() ? 0 : shape.front(); }
};

// "[64, 1, 8, 8]", for messages.
std::string shown(const std::vector<std::int64_t>& shape);

// How many bytes such an array has. kCorrupt for a negative dimension, or where even without its zeros the product is
// more than an int64 holds. `name` is the file, for the message.
Result<std::uint64_t> byte_count(DType dtype, const std::vector<std::int64_t>& shape, std::string_view name);

// An array of these bytes, as many as byte_count says, which stand at byte `position` of the file `name`. They are
// copied only where they are not aligned. kCorrupt for truth values that are neither 0 nor 1.
Result<Array> array_of(DType dtype, std::vector<std::int64_t> shape, const Slice& bytes, std::size_t position,
                       std::string_view name);

// One after the other along the first dimension; a single one is returned as it is. kInvalid, with both names, where
// element type or shape of a row differ. `names` are the arrays' files, as many as there are arrays, at least one.
Result<Array> joined(const std::vector<Array>& arrays, const std::vector<std::string>& names);

}  // namespace ravnest::archive
