// Bytes over one connection, in the clear or in TLS, without ever waiting.
//
// Not thread-safe; one owner at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ravnest/base/bytes.h"
#include "ravnest/base/status.h"
#include "ravnest/net/socket.h"
#include "ravnest/transport/tcp/socket_bio.h"
#include "ravnest/transport/tcp/tls.h"

namespace ravnest::transport::tcp {

enum class Side : unsigned char { kDialled, kAccepted };

class Stream {
 public:
  // As many are written at once.
  static constexpr std::size_t kMostPieces = 64;

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

  // Fills `first`, then `second`; how many bytes in all, 0 where there are none yet. kUnavailable at the end. After a
  // read that was not filled, the next one gives 0 without asking: wait for the descriptor to be readable.
  Result<std::size_t> read(std::span<std::byte> first, std::span<std::byte> second = {});
  // Takes bytes from the front of the pieces and sends them; how many were taken, 0 where there is no room.
  Result<std::size_t> write(std::span<const ByteSpan> pieces);
  // Whether all that was taken has been sent, after another attempt.
  Result<bool> flush();
  // Nothing more will be written.
  void finish_writing();

  // Whether the last call stopped because it could not send.
  bool wants_write() const { return wants_write_; }
  // Until the call that gave 0 or false can go on.
  Status wait(const Wait& wait) const;

 private:
  // What TLS needs, at one place in memory.
  struct Tls {
    explicit Tls(int descriptor) : bio(descriptor) {}
    SocketBio bio;
    TlsSession session;
    std::vector<std::byte> record;  // small pieces, joined
  };

  Stream(Socket socket, std::unique_ptr<Tls> tls) : socket_(std::move(socket)), tls_(std::move(tls)) {}

  Result<std::size_t> read_plain(std::span<std::byte> first, std::span<std::byte> second);
  Result<std::size_t> write_plain(std::span<const ByteSpan> pieces);
  Result<std::size_t> write_records(std::span<const ByteSpan> pieces);
  // The outcome of a call of OpenSSL's: bytes, 0 for "not now", or a failure.
  Result<std::size_t> outcome(int result);

  Socket socket_;
  std::unique_ptr<Tls> tls_;  // none: in the clear
  bool wants_write_ = false;
  bool drained_ = false;  // the last read got all that there was
  TlsTrouble trouble_ = TlsTrouble::kNone;
};

}  // namespace ravnest::transport::tcp
