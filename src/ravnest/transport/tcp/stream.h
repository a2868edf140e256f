// Bytes over one connection, in the clear or in TLS, without ever waiting.
//
// Not thread-safe; one owner.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ravnest/base/bytes.h"
#include "ravnest/base/clock.h"
#include "ravnest/base/status.h"
#include "ravnest/machine/socket.h"
#include "ravnest/transport/tcp/tls.h"

namespace ravnest::transport::tcp {

enum class Side : unsigned char { kDialled, kAccepted };

class Stream {
 public:
  // Over a connected socket; in the clear without a `context`.
  static Result<Stream> over(Socket socket, const TlsContext* context, Side side);

  int descriptor() const { return socket_.descriptor(); }
  const Socket& socket() const { return socket_; }

  // Goes on with TLS's handshake; whether it is done. In the clear there is none.
  Result<bool> handshake();
  // The name in the certificate of the other side; empty in the clear. After the handshake.
  std::string certified_name() const;
  ShownCertificate certificate() const;
  // Of TLS, what made the last call fail; kNone in the clear.
  TlsTrouble trouble() const { return trouble_; }

  // Fills `first`, then `second`; how many bytes in all, 0 where there are none yet. kUnavailable at the end.
  Result<std::size_t> read(std::span<std::byte> first, std::span<std::byte> second = {});
  // Whether `read` can give more without the descriptor being readable.
  bool has_pending() const;
  // Sends from the front; how many bytes went, 0 where there is no room. After 0 the same bytes must come again in
  // front, more behind them do no harm.
  Result<std::size_t> write(std::span<const ByteSpan> pieces);
  // Nothing more will be written.
  void finish_writing();

  // Whether the last call stopped because it could not write.
  bool wants_write() const { return wants_write_; }
  // Until the call that gave 0 or false can go on.
  Status wait(const Wait& wait) const;

 private:
  Stream(Socket socket, TlsSession session) : socket_(std::move(socket)), session_(std::move(session)) {}

  Result<std::size_t> read_plain(std::span<std::byte> first, std::span<std::byte> second);
  Result<std::size_t> write_plain(std::span<const ByteSpan> pieces);
  Result<std::size_t> write_record(std::span<const ByteSpan> pieces, std::size_t skip);
  // The outcome of a call of OpenSSL's: bytes, 0 for "not now", or a failure.
  Result<std::size_t> outcome(int result);

  Socket socket_;
  TlsSession session_;  // none: in the clear
  bool wants_write_ = false;
  TlsTrouble trouble_ = TlsTrouble::kNone;
  std::vector<std::byte> record_;  // small pieces, joined
};

}  // namespace ravnest::transport::tcp
