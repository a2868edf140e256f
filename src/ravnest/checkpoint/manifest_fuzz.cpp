// Any text as a manifest, an index and a part's entry: read or refused; what is read is written so that it is read
// again as the same.
#include "ravnest/archive/testing/fuzz_zip.h"
#include "ravnest/checkpoint/manifest.h"
#include "ravnest/checkpoint/names.h"

namespace {

using namespace ravnest;
using namespace ravnest::checkpoint;
using fuzzing::require;

template <class T>
bool is_refused(const Result<T>& result) {
  if (!result.ok()) require(!result.status().message().empty(), "a refusal says why");
  return !result.ok();
}

void check_manifest(std::string_view input) {
  const Result<Manifest> manifest = decode_manifest(input, "input");
  if (is_refused(manifest)) return;
  fuzzing::accepted().remember(input);
  for (const PartEntry& part : manifest->parts) require(is_part_file(part.file), "parts are files of the folder");
  const std::string written = encode(*manifest);
  const Result<Manifest> again = decode_manifest(written, "again");
  require(again.ok(), "what is written can be read");
  require(encode(*again) == written, "it says the same");
  require(decode_index(encode_index(*manifest), "index").ok(), "its index can be read");
}

void check_entry(std::string_view input) {
  const Result<PartEntry> entry = decode_part_entry(input, "input");
  if (is_refused(entry)) return;
  const Result<PartEntry> again = decode_part_entry(encode(*entry), "again");
  require(again.ok() && *again == *entry, "an entry comes through");
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int seed) {
  return fuzzing::mutate(data, size, max_size, seed, fuzzing::changed);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = as_string_view(std::as_bytes(std::span(data, size)));
  check_manifest(input);
  check_entry(input);
  static_cast<void>(is_refused(decode_index(input, "input")));
  return 0;
}
