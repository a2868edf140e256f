#include "ravnest/transport/tcp/stream.h"

#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace ravnest::transport::tcp {
namespace {

constexpr std::size_t kRecordBytes = 16 << 10;  // of TLS, at most

Status failure(int error) {
  if (error == ECONNRESET || error == EPIPE) return unavailable("the connection was reset");
  return unavailable(std::generic_category().message(error));
}

// The first record's worth of the pieces: as it lies where it is in one piece, joined in `joined` where it is not.
ByteSpan first_record(std::span<const ByteSpan> pieces, std::size_t skip, std::vector<std::byte>& joined) {
  const ByteSpan first = pieces.front().subspan(skip);
  if (first.size() >= kRecordBytes || pieces.size() == 1) return first.first(std::min(first.size(), kRecordBytes));
  joined.assign(first.begin(), first.end());
  for (const ByteSpan piece : pieces.subspan(1)) {
    const ByteSpan part = piece.first(std::min(piece.size(), kRecordBytes - joined.size()));
    joined.insert(joined.end(), part.begin(), part.end());
    if (joined.size() == kRecordBytes) break;
  }
  return joined;
}

}  // namespace

Result<Stream> Stream::over(Socket socket, const TlsContext* context, Side side) {
  if (context == nullptr) return Stream(std::move(socket), nullptr);
  auto tls = std::make_unique<Tls>(socket.descriptor());
  tls->session.reset(SSL_new(context->handle()));
  BIO* const bio = tls->session == nullptr ? nullptr : tls->bio.make();
  if (bio == nullptr) return identity::openssl_failure(Code::kInternal, "start TLS");
  SSL_set_bio(tls->session.get(), bio, bio);
  if (side == Side::kDialled) {
    SSL_set_connect_state(tls->session.get());
  } else {
    SSL_set_accept_state(tls->session.get());
  }
  return Stream(std::move(socket), std::move(tls));
}

Result<bool> Stream::handshake() {
  wants_write_ = false;
  if (tls_ == nullptr) return true;
  ERR_clear_error();
  errno = 0;
  const int result = SSL_do_handshake(tls_->session.get());
  const auto step = result == 1 ? Result<std::size_t>(1) : outcome(result);
  // Also what explains a failure to the other side.
  const auto flushed = flush();
  if (!step.ok()) return step.status();
  if (!flushed.ok()) return flushed.status();
  return result == 1;
}

std::string Stream::certified_name() const { return tls_ == nullptr ? "" : tcp::certified_name(tls_->session.get()); }

ShownCertificate Stream::certificate() const {
  return tls_ == nullptr ? ShownCertificate{} : shown_certificate(tls_->session.get());
}

Result<std::size_t> Stream::outcome(int result) {
  if (result > 0) return static_cast<std::size_t>(result);
  switch (SSL_get_error(tls_->session.get(), result)) {
    case SSL_ERROR_WANT_READ: return 0;
    case SSL_ERROR_WANT_WRITE: wants_write_ = true; return 0;
    case SSL_ERROR_ZERO_RETURN: return unavailable("it closed the connection");
    default: {
      TlsFailure failed = tls_failure(tls_->session.get());
      trouble_ = failed.trouble;
      return std::move(failed.status);
    }
  }
}

Result<std::size_t> Stream::read(std::span<std::byte> first, std::span<std::byte> second) {
  wants_write_ = false;
  if (tls_ == nullptr) return read_plain(first, second);
  std::size_t total = 0;
  for (const std::span<std::byte> into : {first, second}) {
    std::size_t filled = 0;
    while (filled < into.size()) {
      ERR_clear_error();
      errno = 0;
      const std::size_t most = std::min<std::size_t>(into.size() - filled, 1 << 30);
      const auto read = outcome(SSL_read(tls_->session.get(), into.data() + filled, static_cast<int>(most)));
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
  if (std::exchange(drained_, false)) return 0;
  const std::array<iovec, 2> into{{{first.data(), first.size()}, {second.data(), second.size()}}};
  const ssize_t read = ::readv(socket_.descriptor(), into.data(), second.empty() ? 1 : 2);
  if (read > 0) {
    const auto size = static_cast<std::size_t>(read);
    drained_ = size < first.size() + second.size();
    return size;
  }
  if (read == 0) return unavailable("it closed the connection");
  if (would_block(errno)) return 0;
  return failure(errno);
}

Result<std::size_t> Stream::write(std::span<const ByteSpan> pieces) {
  wants_write_ = false;
  return tls_ == nullptr ? write_plain(pieces) : write_records(pieces);
}

Result<std::size_t> Stream::write_records(std::span<const ByteSpan> pieces) {
  std::size_t total = 0;
  std::size_t skip = 0;  // bytes of the first piece that went
  while (!pieces.empty()) {
    if (tls_->bio.unsent() >= SocketBio::kGathered) {
      const auto flushed = flush();
      if (!flushed.ok()) return flushed.status();
      if (!*flushed) break;
    }
    const ByteSpan record = first_record(pieces, skip, tls_->record);
    ERR_clear_error();
    errno = 0;
    const auto written = outcome(SSL_write(tls_->session.get(), record.data(), static_cast<int>(record.size())));
    if (!written.ok()) return written.status();
    total += *written;
    skip += *written;
    while (!pieces.empty() && skip >= pieces.front().size()) {
      skip -= pieces.front().size();
      pieces = pieces.subspan(1);
    }
  }
  return total;
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

Result<bool> Stream::flush() {
  if (tls_ == nullptr) return true;
  auto flushed = tls_->bio.flush();
  wants_write_ = flushed.ok() && !*flushed;
  return flushed;
}

void Stream::finish_writing() { ::shutdown(socket_.descriptor(), SHUT_WR); }

Status Stream::wait(const Wait& wait) const {
  return wait_for(socket_.descriptor(), wants_write_ ? POLLOUT : POLLIN, wait);
}

}  // namespace ravnest::transport::tcp
