// CRC-32C (Castagnoli), the checksum of what goes over the wire.
//
// It finds damage, not malice. The fastest way that this processor has is chosen at the first call; all ways give the
// same sums. Pure functions, safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ravnest/base/bytes.h"

namespace ravnest::codec {

// The sum of `bytes`, or with the sum of what came before as `crc`, that of all of it:
// crc32c(b, crc32c(a)) is the sum of a followed by b. Nothing has the sum 0.
std::uint32_t crc32c(ByteSpan bytes, std::uint32_t crc = 0);

}  // namespace ravnest::codec
