// Any bytes as a part of a checkpoint: read or refused; what is read is written so that it is read again as the same,
// can be put together, and cut again.
#include <algorithm>
#include <filesystem>

#include "ravnest/archive/testing/fuzz_zip.h"
#include "ravnest/archive/testing/payloads.h"
#include "ravnest/archive/weights/safetensors.h"
#include "ravnest/checkpoint/assemble.h"
#include "ravnest/checkpoint/part_file.h"

namespace {

using namespace ravnest;
using namespace ravnest::checkpoint;
using archive::Safetensors;
using fuzzing::Random;
using fuzzing::require;

Result<Part> read(ByteSpan bytes) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  return read_part(*owner, owner, "file");
}

// One of the texts in the metadata, changed as JSON; the rest of the file stays.
std::string with_changed_metadata(std::string_view file, Random& random) {
  const auto owner = std::make_shared<const std::string>(file);
  Result<Safetensors> contents = archive::read_safetensors(as_byte_span(*owner), owner, "file");
  if (!contents.ok() || contents->metadata.empty()) return {};
  auto text = contents->metadata.begin();
  std::advance(text, fuzzing::below(random, contents->metadata.size()));
  text->second = fuzzing::changed(text->second, random);
  ByteWriter out;
  if (!archive::write_safetensors(*contents, archive::testing::into(out)).ok()) return {};
  return std::string(as_string_view(out.bytes()));
}

void check_whole(const Part& part) {
  const Result<Whole> whole = assemble({part});
  if (!whole.ok()) {
    require(!whole.status().message().empty(), "a refusal says why");
    return;
  }
  std::set<std::string> weights;
  for (const auto& [name, payload] : whole->weights) {
    require(archive::check(payload).ok(), "what is put together is well formed");
    weights.insert(name);
  }
  const Result<Part> again = select(*whole, weights, {});
  require(again.ok(), "all of the whole can be chosen");
  require(archive::testing::same_elements(again->weights, whole->weights), "and is the same");
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int seed) {
  return fuzzing::mutate(data, size, max_size, seed, with_changed_metadata);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteSpan bytes = std::as_bytes(std::span(data, size));
  const Result<Part> part = read(bytes);
  if (!part.ok()) {
    require(!part.status().message().empty(), "a refusal says why");
    return 0;
  }
  fuzzing::accepted().remember(as_string_view(bytes));
  ByteWriter out;
  const Status status = write_part(*part, archive::testing::into(out)).status();
  require(status.ok(), "what is read can be written");
  const Result<Part> again = read(out.bytes());
  require(again.ok(), "what we write can be read");
  require(again->optimizer.groups.size() == part->optimizer.groups.size() && again->records == part->records &&
              again->pieces == part->pieces && again->order == part->order,
          "it says the same");
  check_whole(*part);
  return 0;
}
