// OpenSSL's way to a socket: reads go straight to it, writes are gathered so that many records leave by one call.
//
// OpenSSL's own socket BIO sends each record of 16 KiB by itself and lets a closed connection raise SIGPIPE.
#pragma once

#include <openssl/bio.h>

#include <cstddef>
#include <vector>

#include "ravnest/base/status.h"

namespace ravnest::transport::tcp {

class SocketBio {
 public:
  // Records are taken until this much waits to be sent.
  static constexpr std::size_t kGathered = 128 << 10;

  // Over a descriptor that does not wait and that outlives it.
  explicit SocketBio(int descriptor) : descriptor_(descriptor) {}
  SocketBio(const SocketBio&) = delete;
  SocketBio& operator=(const SocketBio&) = delete;

  // For SSL_set_bio, which takes it over; this object must outlive it.
  BIO* make();

  // Sends what was gathered; whether all of it went.
  Result<bool> flush();
  std::size_t unsent() const { return gathered_.size() - sent_; }

 private:
  static BIO_METHOD* method();
  int write(BIO* bio, const char* data, int size);
  int read(BIO* bio, char* into, int size) const;

  int descriptor_;
  std::vector<char> gathered_;
  std::size_t sent_ = 0;
};

}  // namespace ravnest::transport::tcp
