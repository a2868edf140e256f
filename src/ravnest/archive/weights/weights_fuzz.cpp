// Any bytes as a file of weights: refused with a short reason, or read as tensors that lie within their storages and
// come through our writer unchanged.
#include "ravnest/archive/pickle/state_dict.h"
#include "ravnest/archive/testing/fuzz_zip.h"
#include "ravnest/archive/testing/payloads.h"
#include "ravnest/archive/weights/weights.h"

namespace {

using namespace ravnest;
using namespace ravnest::archive;
using fuzzing::require;

constexpr std::int64_t kMostCompared = 1 << 16;  // elements: what is expanded costs nothing in a file

Result<NamedPayloads> read(ByteSpan bytes) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  return read_weights(*owner, owner, "file");
}

void check_round_trip(const NamedPayloads& tensors) {
  ByteWriter out;
  const Status written = write_state_dict(tensors, "m", fuzzing::into(out));
  if (written.code() == Code::kUnsupported) return;  // types that the writer leaves out
  require(written.ok(), "what is read can be written");
  const Result<NamedPayloads> again = read(out.bytes());
  require(again.ok(), "what we write can be read");
  NamedPayloads expected = tensors;
  for (auto& [name, payload] : expected) payload.requires_grad = payload.is_parameter = false;
  require(archive::testing::shown(*again) == archive::testing::shown(expected), "types, sizes and ties come through");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (element_count(tensors[i].second) > kMostCompared) continue;
    require(archive::testing::same_elements({tensors[i]}, {again->at(i)}), "elements come through unchanged");
  }
}

void change_one(fuzzing::Records& records, fuzzing::Random& random) {
  std::string& contents = records[fuzzing::below(random, records.size())].second;
  const auto pickle = std::find_if(records.begin(), records.end(),
                                   [](const auto& record) { return record.first.ends_with("data.pkl"); });
  std::string& chosen = pickle != records.end() && random() % 8 != 0 ? pickle->second : contents;
  chosen = fuzzing::mutated_bytes(chosen);
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int seed) {
  return fuzzing::mutate_archive(data, size, max_size, seed, change_one);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteSpan bytes = std::as_bytes(std::span(data, size));
  const Result<NamedPayloads> tensors = read(bytes);
  if (!tensors.ok()) {
    require(!tensors.status().message().empty() && tensors.status().message().size() < 4000, "a refusal is short");
    return 0;
  }
  for (const auto& [name, payload] : *tensors) require(check(payload).ok(), "what is read is well formed");
  check_round_trip(*tensors);
  fuzzing::accepted().remember(as_string_view(bytes));
  return 0;
}
