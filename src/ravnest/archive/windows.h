// How tensors go into a file that keeps storages as records: each storage once, so that tied tensors stay tied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ravnest/archive/payload.h"
#include "ravnest/base/bytes.h"

namespace ravnest::archive {

// Where one of the tensors lies.
struct Window {
  std::size_t keeper = 0;           // the first of the tensors on this record; itself where nobody came before
  ByteSpan record;                  // not owned: lies in the payload's storage
  std::int64_t storage_offset = 0;  // in elements, from the start of the record
};

// One window per payload, in their order. A tensor that is alone on a larger storage gets a record without the rest of
// it; an empty tensor an empty one of its own. The payloads must have passed `check`.
std::vector<Window> windows_of(const NamedPayloads& payloads);

}  // namespace ravnest::archive
