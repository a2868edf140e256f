// Any bytes as a safetensors file: read or refused; what is read comes through our writer unchanged. Then the same
// bytes as a saved stage.
#include <algorithm>

#include "ravnest/archive/testing/fuzz_zip.h"
#include "ravnest/checkpoint/testing/saved_stage.h"

namespace {

using namespace ravnest;
using namespace ravnest::archive;
using namespace ravnest::checkpoint;
using fuzzing::Random;
using fuzzing::require;

Safetensors sorted(Safetensors contents) {
  std::sort(contents.tensors.begin(), contents.tensors.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return contents;
}

Result<Safetensors> read(ByteSpan bytes) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  return read_safetensors(*owner, owner, "file");
}

void check_round_trip(const Safetensors& contents) {
  for (const auto& [name, payload] : contents.tensors)
    require(check(payload).ok() && is_contiguous(payload), "what is read is well formed");
  ByteWriter out;
  require(write_safetensors(contents, archive::testing::into(out)).ok(), "what is read can be written");
  const Result<Safetensors> again = read(out.bytes());
  require(again.ok(), "what we write can be read");
  require(again->metadata == contents.metadata, "the metadata come through unchanged");
  const Safetensors a = sorted(*again);
  const Safetensors b = sorted(contents);
  require(archive::testing::shown(a.tensors) == archive::testing::shown(b.tensors),
          "names, types and sizes come through");
  require(archive::testing::same_elements(a.tensors, b.tensors), "elements come through unchanged");
}

// The header as JSON, with its length made right; the elements stay.
std::string changed(std::string_view file, Random& random) {
  ByteReader reader(as_byte_span(file));
  const Result<std::uint64_t> size = reader.u64();
  const Result<ByteSpan> header = size.ok() ? reader.bytes(*size) : Result<ByteSpan>(size.status());
  if (!header.ok()) return {};
  std::string elements(file.substr(reader.position()));
  if (random() % 4 == 0) elements = fuzzing::mutated_bytes(elements);
  const std::string text = fuzzing::changed(std::string(as_string_view(*header)), random);
  ByteWriter out;
  out.u64(text.size());
  out.string(text);
  out.string(elements);
  return std::string(as_string_view(out.bytes()));
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int seed) {
  return fuzzing::mutate(data, size, max_size, seed, changed);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteSpan bytes = std::as_bytes(std::span(data, size));
  Result<Safetensors> contents = read(bytes);
  if (!contents.ok()) {
    require(!contents.status().message().empty(), "a refusal says why");
    return 0;
  }
  check_round_trip(*contents);
  fuzzing::accepted().remember(as_string_view(bytes));
  const Result<SavedStage> saved = saved_stage(std::move(*contents), "file");
  if (saved.ok()) require(saved->stage >= 0 && saved->stage < saved->stages, "a stage is one of the stages");
  return 0;
}
