// SHA-256 of bytes in memory.
#pragma once

#include <string>

#include "ravnest/base/bytes.h"
#include "ravnest/base/status.h"

namespace ravnest::identity {

// As 64 lower-case hexadecimal digits. Fails only where OpenSSL does. Safe from any thread.
Result<std::string> sha256(ByteSpan bytes);

}  // namespace ravnest::identity
