#include <algorithm>
#include <vector>

#include "ravnest/archive/weights/safetensors.h"
#include "ravnest/archive/weights/safetensors_format.h"
#include "ravnest/base/file.h"
#include "ravnest/base/json.h"
#include "ravnest/base/json_field.h"
#include "ravnest/base/printable.h"

namespace ravnest::archive {
namespace {

struct Entry {
  std::string name;
  Payload payload;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

[[noreturn]] void refuse_file(const Status& status) { throw DecodeError{status}; }

// The header's text; `bytes` is left with what comes behind it.
std::string_view take_header(ByteSpan& bytes) {
  ByteReader reader(bytes);
  const Result<std::uint64_t> size = reader.u64();
  if (!size.ok()) refuse_file(corrupt("only ", bytes.size(), " bytes: not a safetensors file"));
  if (*size > reader.remaining())
    refuse_file(corrupt("the header should have ", *size, " bytes, but the file ends after ", reader.remaining()));
  if (*size > kMostHeaderBytes)
    refuse_file(corrupt("the header has ", *size, " bytes; the format ends at ", kMostHeaderBytes));
  const std::string_view header = as_string_view(reader.bytes(*size).value());
  if (!header.starts_with('{')) refuse_file(corrupt("the header does not start with {: not a safetensors file"));
  bytes = bytes.subspan(reader.position());
  return header;
}

std::uint64_t natural(const Field& field) {
  const std::int64_t value = field.integer();
  if (value < 0) field.fail("a negative number");
  return static_cast<std::uint64_t>(value);
}

// Sizes from outside: that their product is a number is checked here, and so are the strides'.
void read_shape(const Field& field, Payload& payload) {
  field.for_each([&](const Field& size) { payload.sizes.push_back(static_cast<std::int64_t>(natural(size))); });
  payload.strides.assign(payload.sizes.size(), 1);
  std::int64_t stride = static_cast<std::int64_t>(item_size(payload.dtype));
  for (std::size_t i = payload.sizes.size(); i-- > 0;) {
    payload.strides[i] = stride / static_cast<std::int64_t>(item_size(payload.dtype));
    if (__builtin_mul_overflow(stride, std::max<std::int64_t>(payload.sizes[i], 1), &stride))
      field.fail("sizes beyond any memory");
  }
}

Entry read_entry(const std::string& name, const Field& field, ByteSpan data) {
  Entry entry{.name = name, .payload = {}};
  const std::string type = field["dtype"].string();
  const std::optional<DType> dtype = safetensors_type(type);
  if (!dtype) field["dtype"].refuse(text("\"", type, "\" is a type that ravnest does not read"));
  entry.payload.dtype = *dtype;
  read_shape(field["shape"], entry.payload);
  const Field offsets = field["data_offsets"];
  std::vector<std::uint64_t> ends;
  offsets.for_each([&](const Field& offset) { ends.push_back(natural(offset)); });
  if (ends.size() != 2) offsets.fail("expected two numbers");
  entry.begin = ends[0];
  entry.end = ends[1];
  if (entry.begin > entry.end || entry.end > data.size())
    offsets.fail(text(entry.begin, " to ", entry.end, " does not lie within the ", data.size(), " bytes of elements"));
  if (entry.end - entry.begin != byte_count(entry.payload))
    offsets.fail(text(entry.end - entry.begin, " bytes where the shape takes ", byte_count(entry.payload)));
  return entry;
}

std::map<std::string, std::string> read_metadata(const Field& field) {
  std::map<std::string, std::string> metadata;
  field.for_each_member([&](const std::string& key, const Field& value) { metadata.emplace(key, value.string()); });
  return metadata;
}

// Tensors that lie end to end, from the first byte to the last, neither overlap nor leave room for anything else.
void check_filled(const std::vector<Entry>& entries, std::uint64_t size) {
  std::uint64_t position = 0;
  for (const Entry& entry : entries) {
    if (entry.begin < position)
      refuse_file(corrupt("header.", entry.name, ": starts at byte ", entry.begin, ", within the tensor before it"));
    if (entry.begin > position)
      refuse_file(corrupt("header.", entry.name, ": starts at byte ", entry.begin, ", ", entry.begin - position,
                          " bytes behind the tensor before it"));
    position = entry.end;
  }
  if (position != size) refuse_file(corrupt(size - position, " bytes behind the last tensor belong to none"));
}

Safetensors read(ByteSpan bytes, const std::shared_ptr<const void>& owner) {
  const std::string_view header = take_header(bytes);
  const Result<nlohmann::json> parsed = parse_json_without_repeats(header, "header");
  if (!parsed.ok()) refuse_file(parsed.status());
  Safetensors contents;
  std::vector<Entry> entries;
  Field(*parsed, "header").for_each_member([&](const std::string& name, const Field& field) {
    if (name == kMetadataKey)
      contents.metadata = read_metadata(field);
    else
      entries.push_back(read_entry(name, field, bytes));
  });
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_filled(entries, bytes.size());
  for (Entry& entry : entries) {
    const ByteSpan elements = bytes.subspan(entry.begin, entry.end - entry.begin);
    entry.payload.storage = std::make_shared<Storage>(Storage{owner, elements});
    contents.tensors.emplace_back(std::move(entry.name), std::move(entry.payload));
  }
  return contents;
}

}  // namespace

Result<Safetensors> read_safetensors(ByteSpan bytes, std::shared_ptr<const void> owner, std::string_view what) {
  try {
    return read(bytes, owner);
  } catch (const DecodeError& error) {
    return Status(error.status.code(), printable(error.status.message())).with_context(what);
  }
}

Result<Safetensors> read_safetensors(const std::filesystem::path& path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return file.status();
  const auto owner = std::make_shared<const MappedFile>(std::move(*file));
  return read_safetensors(owner->bytes(), owner, path.string());
}

}  // namespace ravnest::archive
