#include "ravnest/transport/tcp/frame_reader.h"

#include <algorithm>
#include <cstring>

#include "ravnest/codec/crc32c.h"

namespace ravnest::transport::tcp {
namespace {

// Holds any frame but a chunk, and behind a chunk's data the start of what follows.
constexpr std::size_t kBufferBytes = wire::kHeaderBytes + wire::kMaxProbeBodyBytes;
// What is read without knowing yet where it belongs, and copied then: enough for small frames, little of a chunk.
constexpr std::size_t kAhead = 4 << 10;

}  // namespace

ByteSpan FrameReader::take(std::size_t size) {
  const ByteSpan taken = ByteSpan(buffer_).subspan(begin_, size);
  begin_ += size;
  return taken;
}

Result<bool> FrameReader::have(Stream& stream, std::size_t size) {
  if (buffer_.empty()) buffer_.resize(kBufferBytes);
  while (end_ - begin_ < size) {
    if (begin_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    const auto read = stream.read(std::span(buffer_).first(std::max(size, kAhead)).subspan(end_));
    if (!read.ok()) return read.status();
    if (*read == 0) return false;
    end_ += *read;
    bytes_read_ += *read;
  }
  return true;
}

Result<FrameReader::Step> FrameReader::next(Stream& stream) {
  if (state_ == State::kHeader) {
    const auto ready = have(stream, wire::kHeaderBytes);
    if (!ready.ok()) return ready.status();
    if (!*ready) return Step::kNothing;
    const auto header = wire::decode_header(take(wire::kHeaderBytes).first<wire::kHeaderBytes>());
    if (!header.ok()) return header.status();
    header_ = *header;
    state_ = State::kBody;
  }
  if (state_ == State::kData) return read_data(stream);

  const bool is_chunk = header_.kind == wire::FrameKind::kChunk;
  const std::size_t wanted = is_chunk ? wire::kChunkHeadBytes : header_.size;
  const auto ready = have(stream, wanted);
  if (!ready.ok()) return ready.status();
  if (!*ready) return Step::kNothing;
  body_ = take(wanted);
  checksum_ = codec::crc32c(body_);
  if (!is_chunk) {
    if (checksum_ != header_.checksum) return corrupt("a frame's checksum is wrong");
    state_ = State::kHeader;
    return Step::kFrame;
  }
  const auto chunk = wire::decode_chunk(body_);
  if (!chunk.ok()) return chunk.status();
  chunk_ = *chunk;
  filled_ = 0;
  data_ = {};
  state_ = State::kData;
  return Step::kChunk;
}

void FrameReader::sum(ByteSpan data) {
  if (!trusts_stream_) checksum_ = codec::crc32c(data, checksum_);
}

Result<FrameReader::Step> FrameReader::read_data(Stream& stream) {
  if (data_.size() != chunk_size()) return internal("a chunk has no place to go to");
  const std::size_t buffered = std::min(end_ - begin_, data_.size() - filled_);
  if (buffered > 0) {
    const ByteSpan came = take(buffered);
    std::ranges::copy(came, data_.data() + filled_);
    sum(came);
    filled_ += buffered;
  }
  while (filled_ < data_.size()) {
    // The buffer is empty here: what comes behind the chunk goes there, by the same call.
    const std::span<std::byte> rest = data_.subspan(filled_);
    const auto read = stream.read(rest, std::span(buffer_).first(kAhead));
    if (!read.ok()) return read.status();
    if (*read == 0) return Step::kNothing;
    bytes_read_ += *read;
    const std::size_t direct = std::min(*read, rest.size());
    sum(rest.first(direct));
    filled_ += direct;
    begin_ = 0;
    end_ = *read - direct;
  }
  if (!trusts_stream_ && checksum_ != header_.checksum) return corrupt("a chunk's checksum is wrong");
  state_ = State::kHeader;
  return Step::kChunkDone;
}

}  // namespace ravnest::transport::tcp
