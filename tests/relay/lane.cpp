#include "relay/lane.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace ravnest::relay {

bool Lane::wants_to_take() const {
  return from_.readable && end_ == End::kNone && !to_.broken && held_bytes_ < wire_.room_bytes();
}

void Lane::take(std::span<std::byte> scratch, const Clock& clock, std::uint64_t& left) {
  const ssize_t count = ::recv(from_.socket.number(), scratch.data(), scratch.size(), 0);
  // Asked only now: what came in since the loop last looked at the clock must not arrive early.
  const TimePoint now = clock.now();
  if (count > 0) {
    const ByteSpan bytes = scratch.first(static_cast<std::size_t>(count));
    last_arrives_ = std::max(last_arrives_, wire_.carry(bytes.size(), now));
    const std::size_t written = held_.empty() && last_arrives_ <= now ? write(bytes, left) : 0;
    if (written < bytes.size()) hold(bytes.subspan(written), last_arrives_);
  } else if (count == 0) {
    // A failed send has taken the socket's error with it; what is left to read then is an end like any other.
    end(from_.broken ? End::kReset : End::kInOrder, now);
  } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
    from_.readable = false;
  } else if (errno != EINTR) {
    from_.broken = true;
    end(End::kReset, now);
  }
}

void Lane::give(TimePoint now, std::uint64_t& left) {
  while (is_behind(now) && to_.writable && left > 0) {
    Piece& piece = held_.front();
    piece.given += write(ByteSpan(piece.bytes).subspan(piece.given), left);
    if (piece.given < piece.bytes.size()) break;
    held_bytes_ -= piece.bytes.size() + sizeof(Piece);
    held_.pop_front();
  }
  if (to_.broken) {
    held_.clear();
    held_bytes_ = 0;
  }
  if (held_.empty() && end_ == End::kInOrder && end_arrives_ <= now && !finished_) {
    ::shutdown(to_.socket.number(), SHUT_WR);
    finished_ = true;
  }
}

void Lane::pass_break_on(TimePoint now) {
  if (from_.broken && end_ == End::kInOrder) end(End::kReset, now);
}

std::optional<TimePoint> Lane::next(TimePoint now) const {
  if (!held_.empty() && held_.front().arrives > now) return held_.front().arrives;
  if (end_ == End::kNone || finished_ || end_arrives_ <= now) return std::nullopt;
  return end_arrives_;
}

std::size_t Lane::write(ByteSpan bytes, std::uint64_t& left) {
  std::size_t written = 0;
  while (written < bytes.size() && to_.writable && left > 0) {
    const std::size_t most = std::min<std::uint64_t>(bytes.size() - written, left);
    const ssize_t count = ::send(to_.socket.number(), bytes.data() + written, most, MSG_NOSIGNAL);
    if (count >= 0) {
      written += static_cast<std::size_t>(count);
      left -= static_cast<std::uint64_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      to_.writable = false;
    } else if (errno != EINTR) {
      to_.broken = true;
      to_.writable = false;
      // The lane the other way takes from there, finds the end and passes it on.
      to_.readable = true;
    }
  }
  bytes_given_ += written;
  return written;
}

void Lane::hold(ByteSpan bytes, TimePoint arrives) {
  held_.push_back({.bytes = {bytes.begin(), bytes.end()}, .arrives = arrives});
  held_bytes_ += bytes.size() + sizeof(Piece);
}

void Lane::end(End how, TimePoint now) {
  end_ = how;
  finished_ = false;
  last_arrives_ = std::max(last_arrives_, wire_.carry(0, now));
  end_arrives_ = last_arrives_;
}

}  // namespace ravnest::relay
