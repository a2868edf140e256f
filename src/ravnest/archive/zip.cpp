#include "ravnest/archive/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace ravnest::archive {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kCentralHeader = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kEnd64 = 0x06064b50;
constexpr std::uint32_t kEnd64Locator = 0x07064b50;
constexpr std::size_t kLocalHeaderSize = 30;
constexpr std::size_t kEndSize = 22;
constexpr std::size_t kEnd64LocatorSize = 20;
constexpr std::uint16_t kZip64Extra = 0x0001;
constexpr std::uint16_t kPaddingExtra = 0x4246;  // "FB": the tag that torch gives its own padding
constexpr std::uint32_t kIn64 = 0xffffffff;      // "see the zip64 field"
constexpr std::uint16_t kCountIn64 = 0xffff;
constexpr std::uint64_t kAlignment = 64;
constexpr std::uint16_t kEncrypted = 1;

struct Directory {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t count = 0;
};

template <class T>
T load(ByteSpan bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::uint32_t crc_of(ByteSpan bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

Result<std::size_t> find_end(ByteSpan bytes) {
  if (bytes.size() < kEndSize) return corrupt("not a zip archive: only ", bytes.size(), " bytes");
  const std::size_t last = bytes.size() - kEndSize;
  const std::size_t first = last > 0xffff ? last - 0xffff : 0;  // a comment of up to 65535 bytes may follow
  for (std::size_t at = last + 1; at-- > first;) {
    if (load<std::uint32_t>(bytes, at) == kEnd) return at;
  }
  return corrupt("not a zip archive, or a truncated one: no end record");
}

Result<Directory> find_directory(ByteSpan bytes) {
  const Result<std::size_t> end = find_end(bytes);
  if (!end.ok()) return end.status();
  Directory directory{load<std::uint32_t>(bytes, *end + 16), load<std::uint32_t>(bytes, *end + 12),
                      load<std::uint16_t>(bytes, *end + 10)};
  const bool wide = directory.offset == kIn64 || directory.size == kIn64 || directory.count == kCountIn64;
  if (wide && *end >= kEnd64LocatorSize && load<std::uint32_t>(bytes, *end - kEnd64LocatorSize) == kEnd64Locator) {
    ByteReader reader(bytes);
    const std::uint64_t at = load<std::uint64_t>(bytes, *end - kEnd64LocatorSize + 8);
    if (!reader.seek(at).ok() || reader.remaining() < 56 || load<std::uint32_t>(bytes, at) != kEnd64)
      return corrupt("the zip64 end record is not where the archive says");
    directory = {load<std::uint64_t>(bytes, at + 48), load<std::uint64_t>(bytes, at + 40),
                 load<std::uint64_t>(bytes, at + 32)};
  }
  if (directory.offset > bytes.size() || directory.size > bytes.size() - directory.offset)
    return corrupt("the archive's directory lies outside of the file");
  return directory;
}

// One line of the directory.
struct Line {
  std::string name;
  std::uint32_t crc = 0;
  std::uint64_t compressed = 0;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
  std::uint16_t method = 0;
  std::uint16_t flags = 0;
};

// Fields that did not fit into 32 bits follow in the zip64 extra, in this order, only those that are needed.
Status widen(Line& line, ByteSpan extra) {
  ByteReader fields(extra);
  while (fields.remaining() >= 4) {
    const std::uint16_t tag = *fields.u16();
    const Result<ByteSpan> body = fields.bytes(*fields.u16());
    if (!body.ok()) return corrupt("record ", line.name, ": an extra field runs past its end");
    if (tag != kZip64Extra) continue;
    ByteReader wide(*body);
    for (std::uint64_t* field : {&line.size, &line.compressed, &line.offset}) {
      if (*field != kIn64) continue;
      const Result<std::uint64_t> value = wide.u64();
      if (!value.ok()) return corrupt("record ", line.name, ": its zip64 field is too short");
      *field = *value;
    }
  }
  return {};
}

Result<Line> read_line(ByteReader& reader) {
  const Result<ByteSpan> fixed = reader.bytes(46);
  if (!fixed.ok() || load<std::uint32_t>(*fixed, 0) != kCentralHeader)
    return corrupt("the archive's directory is damaged");
  Line line;
  line.flags = load<std::uint16_t>(*fixed, 8);
  line.method = load<std::uint16_t>(*fixed, 10);
  line.crc = load<std::uint32_t>(*fixed, 16);
  line.compressed = load<std::uint32_t>(*fixed, 20);
  line.size = load<std::uint32_t>(*fixed, 24);
  line.offset = load<std::uint32_t>(*fixed, 42);
  const Result<ByteSpan> name = reader.bytes(load<std::uint16_t>(*fixed, 28));
  const Result<ByteSpan> extra = reader.bytes(load<std::uint16_t>(*fixed, 30));
  const Status comment = reader.skip(load<std::uint16_t>(*fixed, 32));
  if (!name.ok() || !extra.ok() || !comment.ok()) return corrupt("the archive's directory is cut short");
  line.name = as_string_view(*name);
  if (Status status = widen(line, *extra); !status.ok()) return status;
  return line;
}

// Where a record stands, its header included.
struct Extent {
  std::size_t begin = 0;
  std::size_t end = 0;
  auto operator<=>(const Extent&) const = default;  // NOLINT(modernize-use-nullptr): a false alarm of clang-tidy 14
};

bool overlap(std::vector<Extent>& extents) {
  std::sort(extents.begin(), extents.end());
  const auto meets = [](const Extent& a, const Extent& b) { return b.begin < a.end; };
  return std::adjacent_find(extents.begin(), extents.end(), meets) != extents.end();
}

Result<ByteSpan> locate(ByteSpan archive, const Line& line) {
  if ((line.flags & kEncrypted) != 0) return unsupported("record ", line.name, " is encrypted");
  if (line.method != 0 || line.compressed != line.size)
    return unsupported("record ", line.name, " is compressed (method ", line.method, "); only stored records are read");
  ByteReader reader(archive);
  Status found = reader.seek(line.offset);
  const Result<ByteSpan> header = found.ok() ? reader.bytes(kLocalHeaderSize) : Result<ByteSpan>(found);
  if (!header.ok() || load<std::uint32_t>(*header, 0) != kLocalHeader)
    return corrupt("record ", line.name, " is not where the directory says");
  const std::size_t name_size = load<std::uint16_t>(*header, 26);
  found = reader.skip(name_size + load<std::uint16_t>(*header, 28));
  const Result<ByteSpan> bytes = found.ok() ? reader.bytes(line.size) : Result<ByteSpan>(found);
  if (!bytes.ok()) return corrupt("record ", line.name, " of ", line.size, " bytes runs past the end of the file");
  return bytes;
}

void begin_entry(ByteWriter& out, bool wide, std::uint32_t crc, std::uint64_t size, std::size_t name_size,
                 std::size_t extra_size) {
  out.u16(wide ? 45 : 20);  // version needed
  out.u16(0);               // flags
  out.u16(0);               // stored
  out.u32(0);               // no time and date: equal models give equal files
  out.u32(crc);
  out.u32(wide ? kIn64 : static_cast<std::uint32_t>(size));
  out.u32(wide ? kIn64 : static_cast<std::uint32_t>(size));
  out.u16(static_cast<std::uint16_t>(name_size));
  out.u16(static_cast<std::uint16_t>(extra_size));
}

}  // namespace

Result<ZipReader> ZipReader::open(ByteSpan bytes) {
  const Result<Directory> directory = find_directory(bytes);
  if (!directory.ok()) return directory.status();
  ByteReader reader(bytes.subspan(directory->offset, directory->size));
  ZipReader result;
  std::vector<Extent> extents;
  for (std::uint64_t i = 0; i < directory->count; ++i) {
    const Result<Line> line = read_line(reader);
    if (!line.ok()) return line.status();
    const Result<ByteSpan> record = locate(bytes, *line);
    if (!record.ok()) return record.status();
    if (!result.records_.emplace(line->name, Record{*record, line->crc}).second)
      return corrupt("record ", line->name, " is there twice");
    extents.push_back({line->offset, static_cast<std::size_t>(record->data() - bytes.data()) + record->size()});
  }
  if (overlap(extents)) return corrupt("two records of the archive overlap");
  return result;
}

Result<ByteSpan> ZipReader::record(const std::string& name) const {
  const auto found = records_.find(name);
  if (found == records_.end()) return corrupt("the archive has no record ", name);
  if (crc_of(found->second.bytes) != found->second.crc)
    return corrupt("record ", name, " is damaged: its checksum differs");
  return found->second.bytes;
}

std::vector<std::string> ZipReader::names() const {
  std::vector<std::string> result;
  for (const auto& [name, record] : records_) result.push_back(name);
  return result;
}

Status ZipWriter::write(ByteSpan bytes) {
  position_ += bytes.size();
  return sink_(bytes);
}

Status ZipWriter::add(const std::string& name, std::string_view contents) { return add(name, as_byte_span(contents)); }

Status ZipWriter::add(const std::string& name, ByteSpan bytes) {
  if (name.size() > 0xffff) return invalid("a record's name is too long: ", name.substr(0, 80), "...");
  const Entry entry{name, bytes.size(), position_, crc_of(bytes)};
  const bool wide = entry.size >= limits_.bytes;
  const std::uint64_t unpadded = entry.offset + kLocalHeaderSize + name.size() + (wide ? 20 : 0) + 4;
  const std::uint64_t padding = (kAlignment - unpadded % kAlignment) % kAlignment;
  ByteWriter header;
  header.u32(kLocalHeader);
  begin_entry(header, wide, entry.crc, entry.size, name.size(), (wide ? 20 : 0) + 4 + padding);
  header.string(name);
  if (wide) {
    header.u16(kZip64Extra);
    header.u16(16);
    header.u64(entry.size);
    header.u64(entry.size);
  }
  header.u16(kPaddingExtra);
  header.u16(static_cast<std::uint16_t>(padding));
  for (std::uint64_t i = 0; i < padding; ++i) header.u8(0);
  if (Status status = write(header.bytes()); !status.ok()) return status;
  entries_.push_back(entry);
  return write(bytes);
}

Status ZipWriter::finish() {
  const std::uint64_t start = position_;
  ByteWriter out;
  for (const Entry& entry : entries_) {
    const bool wide = entry.size >= limits_.bytes;
    const bool far = entry.offset >= limits_.bytes;
    const std::size_t extra = wide || far ? 4 + (wide ? 16 : 0) + (far ? 8 : 0) : 0;
    out.u32(kCentralHeader);
    out.u16(45);  // made by
    begin_entry(out, wide, entry.crc, entry.size, entry.name.size(), extra);
    out.u16(0);  // comment
    out.u16(0);  // disk
    out.u16(0);  // internal attributes
    out.u32(0);  // external attributes
    out.u32(far ? kIn64 : static_cast<std::uint32_t>(entry.offset));
    out.string(entry.name);
    if (extra == 0) continue;
    out.u16(kZip64Extra);
    out.u16(static_cast<std::uint16_t>(extra - 4));
    if (wide) out.u64(entry.size);
    if (wide) out.u64(entry.size);
    if (far) out.u64(entry.offset);
  }
  const std::uint64_t size = out.size();
  const bool wide = start >= limits_.bytes || size >= limits_.bytes || entries_.size() >= limits_.records;
  if (wide) {
    out.u32(kEnd64);
    out.u64(44);  // bytes that follow in this record
    out.u16(45);
    out.u16(45);
    out.u32(0);
    out.u32(0);
    out.u64(entries_.size());
    out.u64(entries_.size());
    out.u64(size);
    out.u64(start);
    out.u32(kEnd64Locator);
    out.u32(0);
    out.u64(start + size);
    out.u32(1);
  }
  const auto count = static_cast<std::uint16_t>(wide ? kCountIn64 : entries_.size());
  out.u32(kEnd);
  out.u32(0);  // disks
  out.u16(count);
  out.u16(count);
  out.u32(wide ? kIn64 : static_cast<std::uint32_t>(size));
  out.u32(wide ? kIn64 : static_cast<std::uint32_t>(start));
  out.u16(0);
  return write(out.bytes());
}

}  // namespace ravnest::archive
