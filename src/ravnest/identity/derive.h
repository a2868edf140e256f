// Keys that everyone who has a secret comes to: HKDF (RFC 5869) over SHA-256.
//
// The secret has to be one that nobody can guess, not a password. Safe from any thread.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "ravnest/base/bytes.h"
#include "ravnest/base/status.h"
#include "ravnest/identity/openssl.h"

namespace ravnest::identity {

// `size` bytes for one `purpose`: what is known of those of another purpose tells nothing about them.
Result<std::vector<unsigned char>> derive_bytes(ByteSpan secret, std::string_view purpose, std::size_t size);

// A private key on P-256, with its public part.
Result<Key> derive_key(ByteSpan secret, std::string_view purpose);

}  // namespace ravnest::identity
