// SHA-256 of bytes in memory, at once or as they come.
#pragma once

#include <memory>
#include <string>

#include "ravnest/base/bytes.h"
#include "ravnest/base/status.h"

namespace ravnest::identity {

// As 64 lower-case hexadecimal digits. Fails only where OpenSSL does. Safe from any thread.
Result<std::string> sha256(ByteSpan bytes);

// The same of bytes that come in pieces. A failure of OpenSSL is kept for `digits`. Movable; one owner.
class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();

  void add(ByteSpan bytes);
  // Of all that was added; to be called once, at the end.
  Result<std::string> digits();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace ravnest::identity
