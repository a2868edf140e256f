#include <algorithm>
#include <optional>

#include "ravnest/base/bytes.h"
#include "ravnest/data/formats.h"
#include "ravnest/data/gunzip.h"

namespace ravnest::data {
namespace {

constexpr std::size_t kMostIdxDimensions = 8;
constexpr std::size_t kHeaderBytes = 4 + 4 * kMostIdxDimensions;

std::optional<DType> element_type(std::byte code) {
  switch (static_cast<int>(code)) {
    case 0x08: return DType::kUInt8;
    case 0x09: return DType::kInt8;
    case 0x0b: return DType::kInt16;
    case 0x0c: return DType::kInt32;
    case 0x0d: return DType::kFloat32;
    case 0x0e: return DType::kFloat64;
    default: return std::nullopt;
  }
}

struct Header {
  DType dtype = DType::kUInt8;
  std::vector<std::int64_t> shape;
  std::uint64_t data_at = 0;
  std::uint64_t bytes = 0;  // of the data
};

Result<Header> read_header(ByteSpan file, std::string_view name) {
  if (file.size() < 4) return corrupt(name, ": ", file.size(), " bytes are too few for an IDX file");
  if (file[0] != std::byte{0} || file[1] != std::byte{0})
    return corrupt(name, ": an IDX file begins with two zero bytes, this one does not");
  const std::optional<DType> dtype = element_type(file[2]);
  if (!dtype) return corrupt(name, ": byte 2 is ", static_cast<int>(file[2]), ", not an element type of IDX");
  const auto dimensions = static_cast<std::size_t>(file[3]);
  if (dimensions == 0) return corrupt(name, ": byte 3 says that the array has no dimensions");
  if (dimensions > kMostIdxDimensions)
    return unsupported(name, ": ", dimensions, " dimensions; at most ", kMostIdxDimensions, " are read");
  Header header{*dtype, {}, 4 + 4 * dimensions, 0};
  if (file.size() < header.data_at)
    return corrupt(name, ": it ends at byte ", file.size(), ", within its header of ", header.data_at, " bytes");
  for (std::size_t i = 0; i < dimensions; ++i) {
    std::uint32_t size = 0;
    for (std::size_t b = 0; b < 4; ++b) size = size << 8 | static_cast<std::uint32_t>(file[4 + 4 * i + b]);
    header.shape.push_back(size);
  }
  Result<std::uint64_t> bytes = archive::byte_count(header.dtype, header.shape, name);
  if (!bytes.ok()) return bytes.status();
  header.bytes = *bytes;
  return header;
}

Status misfit(const Header& header, std::uint64_t found, std::string_view more, std::string_view name) {
  return corrupt(name, ": the header announces ", archive::shown(header.shape), " in ", header.bytes,
                 " bytes, and there are ", more, found);
}

// IDX is big-endian.
Slice turned(const Slice& data, std::size_t item) {
  std::vector<std::byte> buffer(data.bytes.begin(), data.bytes.end());
  for (auto at = buffer.begin(); at != buffer.end(); at += static_cast<std::ptrdiff_t>(item))
    std::reverse(at, at + static_cast<std::ptrdiff_t>(item));
  return slice_of(std::move(buffer));
}

}  // namespace

Result<archive::Array> decode_idx(const Slice& file, std::string_view name) {
  Slice plain = file;
  const bool packed = is_gzip(file.bytes);
  if (packed) {
    Result<std::vector<std::byte>> head = gunzip(file.bytes, kHeaderBytes, name);
    if (!head.ok()) return head.status();
    const Result<Header> header = read_header(*head, name);
    if (!header.ok()) return header.status();
    // One byte more than announced shows whether there is more, and makes zlib look at the checksum.
    Result<std::vector<std::byte>> all = gunzip(file.bytes, header->data_at + header->bytes + 1, name);
    if (!all.ok()) return all.status();
    plain = slice_of(std::move(all).value());
  }
  const Result<Header> header = read_header(plain.bytes, name);
  if (!header.ok()) return header.status();
  const std::uint64_t found = plain.size() - header->data_at;
  if (found != header->bytes) return misfit(*header, found, packed && found > header->bytes ? "at least " : "", name);
  const Slice data = plain.part(header->data_at, header->bytes);
  const std::size_t item = item_size(header->dtype);
  return archive::Array{header->dtype, header->shape, item == 1 ? data : turned(data, item)};
}

Result<archive::Array> read_idx(const std::filesystem::path& path) {
  const Result<Slice> file = archive::map_file(path);
  return file.ok() ? decode_idx(*file, path.string()) : file.status();
}

}  // namespace ravnest::data
