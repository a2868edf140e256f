#include "ravnest/transport/tcp/stream.h"

#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace ravnest::transport::tcp {
namespace {

constexpr std::size_t kMostPieces = 64;
constexpr std::size_t kRecordBytes = 16 << 10;  // of TLS, at most

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

Status failure(int error) {
  if (error == ECONNRESET || error == EPIPE) return unavailable("the connection was reset");
  return unavailable(std::generic_category().message(error));
}

}  // namespace

Result<Stream> Stream::over(Socket socket, const TlsContext* context, Side side) {
  if (context == nullptr) return Stream(std::move(socket), nullptr);
  TlsSession session(SSL_new(context->handle()));
  if (session == nullptr || SSL_set_fd(session.get(), socket.descriptor()) != 1) {
    return plan::openssl_failure(Code::kInternal, "start TLS");
  }
  if (side == Side::kDialled) {
    SSL_set_connect_state(session.get());
  } else {
    SSL_set_accept_state(session.get());
  }
  return Stream(std::move(socket), std::move(session));
}

Result<bool> Stream::handshake() {
  wants_write_ = false;
  if (session_ == nullptr) return true;
  ERR_clear_error();
  errno = 0;
  const int result = SSL_do_handshake(session_.get());
  if (result == 1) return true;
  const auto step = outcome(result);
  if (!step.ok()) return step.status();
  return false;
}

std::string Stream::certified_name() const { return session_ == nullptr ? "" : tcp::certified_name(session_.get()); }

ShownCertificate Stream::certificate() const {
  return session_ == nullptr ? ShownCertificate{} : shown_certificate(session_.get());
}

Result<std::size_t> Stream::outcome(int result) {
  if (result > 0) return static_cast<std::size_t>(result);
  switch (SSL_get_error(session_.get(), result)) {
    case SSL_ERROR_WANT_READ: return 0;
    case SSL_ERROR_WANT_WRITE: wants_write_ = true; return 0;
    case SSL_ERROR_ZERO_RETURN: return unavailable("it closed the connection");
    default: {
      TlsFailure failed = tls_failure(session_.get());
      trouble_ = failed.trouble;
      return std::move(failed.status);
    }
  }
}

Result<std::size_t> Stream::read(std::span<std::byte> first, std::span<std::byte> second) {
  wants_write_ = false;
  if (session_ == nullptr) return read_plain(first, second);
  std::size_t total = 0;
  for (const std::span<std::byte> into : {first, second}) {
    std::size_t filled = 0;
    while (filled < into.size()) {
      ERR_clear_error();
      errno = 0;
      const std::size_t most = std::min<std::size_t>(into.size() - filled, 1 << 30);
      const auto read = outcome(SSL_read(session_.get(), into.data() + filled, static_cast<int>(most)));
      // What came before a failure counts; the failure comes again.
      if (!read.ok()) return total > 0 ? Result<std::size_t>(total) : read;
      if (*read == 0) return total;
      filled += *read;
      total += *read;
    }
  }
  return total;
}

Result<std::size_t> Stream::read_plain(std::span<std::byte> first, std::span<std::byte> second) {
  const std::array<iovec, 2> into{{{first.data(), first.size()}, {second.data(), second.size()}}};
  const ssize_t read = ::readv(socket_.descriptor(), into.data(), second.empty() ? 1 : 2);
  if (read > 0) return static_cast<std::size_t>(read);
  if (read == 0) return unavailable("it closed the connection");
  if (would_block(errno)) return 0;
  return failure(errno);
}

bool Stream::has_pending() const { return session_ != nullptr && SSL_has_pending(session_.get()) == 1; }

Result<std::size_t> Stream::write(std::span<const ByteSpan> pieces) {
  wants_write_ = false;
  if (session_ == nullptr) return write_plain(pieces);
  std::size_t total = 0;
  std::size_t skip = 0;  // bytes of the first piece that went
  while (!pieces.empty()) {
    const auto written = write_record(pieces, skip);
    if (!written.ok()) return total > 0 ? Result<std::size_t>(total) : written;
    if (*written == 0) break;
    total += *written;
    skip += *written;
    while (!pieces.empty() && skip >= pieces.front().size()) {
      skip -= pieces.front().size();
      pieces = pieces.subspan(1);
    }
  }
  return total;
}

// Small pieces go together, in one record; a long one as it lies, in records of its own.
Result<std::size_t> Stream::write_record(std::span<const ByteSpan> pieces, std::size_t skip) {
  ByteSpan record = pieces.front().subspan(skip);
  if (record.size() < kRecordBytes && pieces.size() > 1) {
    record_.assign(record.begin(), record.end());
    for (const ByteSpan piece : pieces.subspan(1)) {
      const ByteSpan part = piece.first(std::min(piece.size(), kRecordBytes - record_.size()));
      record_.insert(record_.end(), part.begin(), part.end());
      if (record_.size() == kRecordBytes) break;
    }
    record = record_;
  }
  ERR_clear_error();
  errno = 0;
  return outcome(
      SSL_write(session_.get(), record.data(), static_cast<int>(std::min<std::size_t>(record.size(), 1 << 30))));
}

Result<std::size_t> Stream::write_plain(std::span<const ByteSpan> pieces) {
  std::array<iovec, kMostPieces> from{};
  const std::size_t count = std::min(pieces.size(), kMostPieces);
  for (std::size_t i = 0; i < count; ++i) {
    from[i] = {const_cast<std::byte*>(pieces[i].data()), pieces[i].size()};
  }
  msghdr message{};
  message.msg_iov = from.data();
  message.msg_iovlen = count;
  const ssize_t written = ::sendmsg(socket_.descriptor(), &message, MSG_NOSIGNAL);
  if (written > 0) return static_cast<std::size_t>(written);
  if (written < 0 && !would_block(errno)) return failure(errno);
  wants_write_ = true;
  return 0;
}

void Stream::finish_writing() { ::shutdown(socket_.descriptor(), SHUT_WR); }

Status Stream::wait(const Wait& wait) const {
  if (has_pending()) return {};
  return wait_for(socket_.descriptor(), wants_write_ ? POLLOUT : POLLIN, wait);
}

}  // namespace ravnest::transport::tcp
