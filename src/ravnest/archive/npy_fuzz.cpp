// Any bytes as a .npy file: refused with a short reason, or read as an array whose bytes are those of its shape.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "ravnest/archive/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ravnest;
  const ByteSpan bytes = std::as_bytes(std::span(data, size));
  const auto array = archive::decode_npy(slice_of({bytes.begin(), bytes.end()}), "x.npy");
  if (!array.ok()) {
    if (array.status().message().empty() || array.status().message().size() > 2000) std::abort();
    return 0;
  }
  const auto count = archive::byte_count(array->dtype, array->shape, "x.npy");
  if (!count.ok() || *count != array->bytes.size()) std::abort();
  // Every byte can be read, and has its place in a copy.
  if (std::vector(array->bytes.bytes.begin(), array->bytes.bytes.end()).size() != *count) std::abort();
  return 0;
}
