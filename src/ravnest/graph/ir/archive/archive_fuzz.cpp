// Any bytes as an archive: read or refused, and what is read comes through our writer unchanged.
#include <iostream>

#include "ravnest/archive/testing/fuzz_zip.h"
#include "ravnest/graph/ir/testing/models.h"

namespace {

using namespace ravnest;
using namespace ravnest::ir;
using fuzzing::below;
using fuzzing::Random;
using fuzzing::require;

// The same tensors on memory of their own, where a look beyond a storage's end is seen by the address sanitizer: in the
// archive, the next record lies there.
archive::NamedPayloads on_own_memory(archive::NamedPayloads payloads) {
  for (auto& [name, payload] : payloads)
    payload.storage = archive::testing::storage_of(
        std::vector<std::byte>(payload.storage->bytes.begin(), payload.storage->bytes.end()));
  return payloads;
}

// Windows that overlap themselves show more elements than their file has; only few of those are worth comparing.
bool is_small(const archive::NamedPayloads& payloads) {
  for (const auto& [name, payload] : payloads) {
    if (archive::element_count(payload) > 4096) return false;
  }
  return true;
}

void check_round_trip(const Model& model) {
  const Result<std::vector<std::byte>> written = testing::bytes_of(model);
  if (!written.ok()) return;  // pytrees of dicts whose keys are not strings: can be read, not written
  const Result<Model> again = testing::read_back(*written);
  if (!again.ok()) std::cerr << again.status() << "\n";
  require(again.ok(), "what we write can be read");
  require(testing::shown(*again) == testing::shown(model), "what we write reads back the same");
  for (const auto list : {&Model::weights, &Model::constants}) {
    if (is_small(model.*list))
      require(archive::testing::same_elements(on_own_memory(model.*list), (*again).*list),
              "tensors come through unchanged");
  }
  require(testing::bytes_of(*again).value() == *written, "writing twice gives the same bytes");
}

void change(fuzzing::Records& records, Random& random) {
  std::vector<std::size_t> documents;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (records[i].first.ends_with(".json")) documents.push_back(i);
  }
  const bool of_json = !documents.empty() && random() % 8 != 0;
  auto& [name, contents] =
      records[of_json ? documents[below(random, documents.size())] : below(random, records.size())];
  switch (random() % 16) {
    case 0: name = fuzzing::mutated_bytes(name, 8); break;
    case 1: contents = records[below(random, records.size())].second; break;
    case 2: std::swap(records[below(random, records.size())], records.back()), records.pop_back(); break;
    default: contents = fuzzing::changed(contents, random);
  }
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int seed) {
  return fuzzing::mutate_archive(data, size, max_size, seed, change);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteSpan bytes = std::as_bytes(std::span(data, size));
  const Result<Model> model = testing::read_back({bytes.begin(), bytes.end()});
  if (model.ok()) {
    check_round_trip(*model);
    fuzzing::accepted().remember(as_string_view(bytes));
  } else {
    require(!model.status().message().empty(), "a refusal says why");
  }
  return 0;
}
