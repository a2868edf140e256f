// Any bytes: the decoders of the link measurement answer, and what they accept is what the encoders write.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "ravnest/machine/link_protocol.h"

namespace {

template <class T>
void check(const ravnest::Result<T>& value, ravnest::ByteSpan bytes) {
  if (value.ok() && !std::ranges::equal(ravnest::encode(*value), bytes)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  check(ravnest::decode_hello(bytes), bytes);
  check(ravnest::decode_answer(bytes), bytes);
  check(ravnest::decode_rate(bytes), bytes);
  return 0;
}
