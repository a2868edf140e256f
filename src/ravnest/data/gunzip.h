// Files that gzip compressed.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "ravnest/base/bytes.h"
#include "ravnest/base/status.h"

namespace ravnest::data {

// Whether the bytes begin as gzip's do.
bool is_gzip(ByteSpan bytes);

// The first `at_most` bytes of what was compressed, or all of it where that is less. Memory grows with what really
// comes out. kCorrupt, naming the file `name` and the place in it, where the stream is broken or ends before that; the
// checksum is verified only where the end is reached, so ask for one byte more than expected.
Result<std::vector<std::byte>> gunzip(ByteSpan compressed, std::size_t at_most, std::string_view name);

}  // namespace ravnest::data
