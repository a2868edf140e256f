// Any text: decode_node_summary answers with a summary or a short reason, and what it accepted survives the way there
// and back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "ravnest/report/summary.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ravnest::report;
  const auto summary = decode_node_summary({reinterpret_cast<const char*>(data), size}, "input");
  if (!summary.ok()) {
    if (summary.status().message().size() > 400) std::abort();
    return 0;
  }
  if (const auto again = decode_node_summary(encode(*summary), "again"); !again.ok() || *again != *summary)
    std::abort();
  if (summary_text({.seconds = 1, .nodes = {*summary}}).empty()) std::abort();
  return 0;
}
