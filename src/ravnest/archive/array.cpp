#include "ravnest/archive/array.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

namespace ravnest::archive {
namespace {

bool same_rows(const Array& a, const Array& b) {
  return a.dtype == b.dtype && !a.shape.empty() &&
         std::ranges::equal(std::span(a.shape).subspan(1), std::span(b.shape).subspan(b.shape.empty() ? 0 : 1));
}

std::string described(const Array& array) { return text(dtype_name(array.dtype), " ", shown(array.shape)); }

// A mapping starts at a page, but what stands before the elements may have any length.
Slice aligned(const Slice& bytes, std::size_t item) {
  const std::size_t part = std::min<std::size_t>(item, 8);  // complex numbers are two of 8
  if (reinterpret_cast<std::uintptr_t>(bytes.bytes.data()) % part == 0) return bytes;
  return slice_of({bytes.bytes.begin(), bytes.bytes.end()});
}

}  // namespace

std::string shown(const std::vector<std::int64_t>& shape) { return text("[", join(shape), "]"); }

Result<std::uint64_t> byte_count(DType dtype, const std::vector<std::int64_t>& shape, std::string_view name) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::uint64_t bytes = item_size(dtype);
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) return corrupt(name, ": dimension ", size, " of shape ", shown(shape), " is negative");
    empty = empty || size == 0;
    const auto factor = static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
    if (bytes > kMost / factor) return corrupt(name, ": no file holds an array of shape ", shown(shape));
    bytes *= factor;
  }
  return empty ? 0 : bytes;
}

Result<Array> array_of(DType dtype, std::vector<std::int64_t> shape, const Slice& bytes, std::size_t position,
                       std::string_view name) {
  if (dtype == DType::kBool) {
    const auto odd = std::ranges::find_if(bytes.bytes, [](std::byte each) { return each > std::byte{1}; });
    if (odd != bytes.bytes.end())
      return corrupt(name, ": byte ", position + static_cast<std::size_t>(odd - bytes.bytes.begin()), " is ",
                     static_cast<int>(*odd), ", but truth values are 0 or 1");
  }
  return Array{dtype, std::move(shape), aligned(bytes, item_size(dtype))};
}

Result<Array> joined(const std::vector<Array>& arrays, const std::vector<std::string>& names) {
  const Array& first = arrays.front();
  if (arrays.size() == 1) return first;
  Array all{first.dtype, first.shape, {}};
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (!same_rows(first, arrays[i]))
      return invalid("cannot put ", names[i], " behind ", names[0], ": it holds ", described(arrays[i]),
                     ", and the first ", described(first), "; all but the number of rows has to be the same");
    bytes += arrays[i].bytes.size();
    if (i > 0) all.shape[0] += arrays[i].rows();
  }
  std::vector<std::byte> buffer;
  buffer.reserve(bytes);
  for (const Array& each : arrays) buffer.insert(buffer.end(), each.bytes.bytes.begin(), each.bytes.bytes.end());
  all.bytes = slice_of(std::move(buffer));
  return all;
}

}  // namespace ravnest::archive
