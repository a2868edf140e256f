// Any bytes as IDX (plain and compressed), CIFAR-10, digits and safetensors files: refused with a short reason, or read
// as arrays whose bytes are those of their shapes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "ravnest/data/formats.h"

namespace {

using namespace ravnest;

void check(const archive::Array& array) {
  const auto count = archive::byte_count(array.dtype, array.shape, "x");
  if (!count.ok() || *count != array.bytes.size()) std::abort();
}

void check(const data::Samples& samples) {
  check(samples.inputs);
  check(samples.targets);
  if (samples.inputs.rows() != samples.targets.rows() || samples.inputs.rows() == 0) std::abort();
}

template <class T>
void check(const Result<T>& result) {
  if (result.ok()) return check(*result);
  if (result.status().message().empty() || result.status().message().size() > 2000) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteSpan bytes = std::as_bytes(std::span(data, size));
  const Slice file = slice_of({bytes.begin(), bytes.end()});
  check(data::decode_idx(file, "x"));
  check(data::decode_cifar({file}, {"x"}));
  check(data::decode_digits(file, "x"));
  check(data::decode_safetensors(file, "inputs", "x"));
  return 0;
}
