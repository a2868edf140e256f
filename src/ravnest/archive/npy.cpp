#include "ravnest/archive/npy.h"

#include <algorithm>
#include <array>
#include <optional>

#include "ravnest/archive/npy_header.h"
#include "ravnest/base/file.h"
#include "ravnest/base/printable.h"

namespace ravnest::archive {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::uint64_t kMostHeader = std::uint64_t{64} << 10;  // six times what numpy itself reads

struct Kind {
  std::string_view letters;  // the descr without its byte order
  DType dtype;
};

constexpr std::array<Kind, 14> kKinds = {{
    {"b1", DType::kBool},
    {"u1", DType::kUInt8},
    {"i1", DType::kInt8},
    {"u2", DType::kUInt16},
    {"i2", DType::kInt16},
    {"u4", DType::kUInt32},
    {"i4", DType::kInt32},
    {"u8", DType::kUInt64},
    {"i8", DType::kInt64},
    {"f2", DType::kFloat16},
    {"f4", DType::kFloat32},
    {"f8", DType::kFloat64},
    {"c8", DType::kComplex64},
    {"c16", DType::kComplex128},
}};

Result<DType> dtype_of(std::string_view descr, std::string_view name) {
  const auto* kind = std::ranges::find(kKinds, descr.substr(std::min<std::size_t>(descr.size(), 1)), &Kind::letters);
  if (kind == kKinds.end())
    return unsupported(name, " holds ", descr.empty() ? "records" : text("elements of kind \"", printable(descr), "\""),
                       ", not plain numbers; save it again with a dtype such as float32 or int64");
  if (descr[0] == '>' && item_size(kind->dtype) > 1)
    return unsupported(name, " holds big-endian numbers (\"", descr, "\"); save it again with array.astype(\"<",
                       kind->letters, "\")");
  if (descr[0] != '<' && descr[0] != '|' && descr[0] != '=' && descr[0] != '>')
    return corrupt(name, ": \"", printable(descr), "\" in the header is not an element type");
  return kind->dtype;
}

// The header's text; the reader is left where the data begins.
Result<std::string_view> header_text(ByteReader& reader, std::string_view name) {
  const Result<ByteSpan> magic = reader.bytes(kMagic.size());
  if (!magic.ok() || as_string_view(*magic) != kMagic)
    return corrupt(name, " is not a .npy file; numpy.save writes one");
  const Result<std::uint8_t> major = reader.u8();
  if (Result<std::uint8_t> minor = reader.u8(); !major.ok() || !minor.ok())
    return corrupt(name, " ends before its version");
  if (*major < 1 || *major > 3)
    return unsupported(name, " has version ", int{*major}, " of the .npy format; 1 to 3 are read");
  std::uint64_t size = 0;
  if (*major == 1) {
    const Result<std::uint16_t> read = reader.u16();
    if (!read.ok()) return read.status().with_context(name);
    size = *read;
  } else {
    const Result<std::uint32_t> read = reader.u32();
    if (!read.ok()) return read.status().with_context(name);
    size = *read;
  }
  if (size > kMostHeader) return corrupt(name, ": its header claims to be ", size, " bytes long");
  const Result<ByteSpan> header = reader.bytes(size);
  if (!header.ok()) return header.status().with_context(text(name, ": the header is cut off"));
  return as_string_view(*header);
}

}  // namespace

Result<Slice> map_file(const std::filesystem::path& path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return file.status();
  auto owner = std::make_shared<const MappedFile>(std::move(file).value());
  const ByteSpan bytes = owner->bytes();
  return Slice{bytes, std::move(owner)};
}

Result<Array> decode_npy(const Slice& file, std::string_view name) {
  ByteReader reader(file.bytes);
  const Result<std::string_view> written = header_text(reader, name);
  if (!written.ok()) return written.status();
  const Result<NpyHeader> header = parse_npy_header(*written, name);
  if (!header.ok()) return header.status();
  const Result<DType> dtype = dtype_of(header->descr, name);
  if (!dtype.ok()) return dtype.status();
  // Of up to one dimension both orders are the same, and numpy may call it either.
  if (header->fortran_order && header->shape.size() > 1)
    return unsupported(name, " is in Fortran order; save it again with numpy.ascontiguousarray(array)");
  const Result<std::uint64_t> bytes = byte_count(*dtype, header->shape, name);
  if (!bytes.ok()) return bytes.status();
  if (*bytes != reader.remaining())
    return corrupt(name, ": the header announces ", dtype_name(*dtype), " ", shown(header->shape), " in ", *bytes,
                   " bytes, and there are ", reader.remaining(), " from byte ", reader.position(), " on");
  return array_of(*dtype, header->shape, file.part(reader.position(), reader.remaining()), reader.position(), name);
}

Result<Array> read_npy(const std::filesystem::path& path) {
  const Result<Slice> file = map_file(path);
  return file.ok() ? decode_npy(*file, path.string()) : file.status();
}

}  // namespace ravnest::archive
