// For fuzz targets whose input is a zip archive.
//
// A checksum stands before every record, so bytes changed at random would end there. A mutator takes the archive apart,
// changes its records and puts it together again with checksums that are right.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/archive/zip.h"
#include "ravnest/base/json.h"
#include "ravnest/base/testing/fuzz_json.h"

namespace ravnest::fuzzing {

using Records = std::vector<std::pair<std::string, std::string>>;

inline archive::ZipWriter::Sink into(ByteWriter& out) {
  return [&out](ByteSpan part) {
    out.bytes(part);
    return Status();
  };
}

// Changed as JSON where it is some, else, and now and then, as bytes.
inline std::string changed(const std::string& contents, Random& random) {
  const Result<nlohmann::json> document = parse_json(contents, "record");
  if (!document.ok() || random() % 8 == 0) return mutated_bytes(contents);
  return mutated_json(*document, random);
}

// Empty where it is no archive.
inline Records records_of(ByteSpan archive) {
  const Result<archive::ZipReader> zip = archive::ZipReader::open(archive);
  if (!zip.ok()) return {};
  Records records;
  for (const std::string& name : zip->names()) {
    const Result<ByteSpan> record = zip->record(name);
    if (record.ok()) records.emplace_back(name, as_string_view(*record));
  }
  return records;
}

// Empty where the records make none.
inline std::string archive_of(const Records& records) {
  ByteWriter out;
  archive::ZipWriter writer(into(out));
  for (const auto& [name, contents] : records) {
    if (!writer.add(name, contents).ok()) return {};
  }
  return writer.finish().ok() ? std::string(as_string_view(out.bytes())) : std::string();
}

// What LLVMFuzzerCustomMutator has to do, as `mutate` has it: `change(records, random)` on the records of an archive.
template <class Change>
std::size_t mutate_archive(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned int seed,
                           const Change& change) {
  return mutate(data, size, max_size, seed, [&](const std::string& archive, Random& random) -> std::string {
    Records records = records_of(as_byte_span(archive));
    if (records.empty()) return {};
    change(records, random);
    return archive_of(records);
  });
}

}  // namespace ravnest::fuzzing
