// Any text: parse_json answers with a value or a short reason, and what it accepted it accepts again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "ravnest/base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto value = ravnest::parse_json({reinterpret_cast<const char*>(data), size}, "input");
  if (!value.ok()) {
    if (value.status().message().size() > 400) std::abort();
    return 0;
  }
  if (const auto again = ravnest::parse_json(value->dump(), "dump"); !again.ok() || *again != *value) std::abort();
  return 0;
}
