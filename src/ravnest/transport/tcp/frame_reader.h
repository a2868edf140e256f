// Frames out of a stream's bytes; the data of a chunk go straight to where the message lies.
//
// A reader asks for the next step again and again until there is nothing more for now. Everything is checked before it
// is shown: lengths before they are waited for, checksums before a body or chunk counts. Not thread-safe; one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ravnest/base/bytes.h"
#include "ravnest/base/status.h"
#include "ravnest/transport/tcp/stream.h"
#include "ravnest/wire/frame.h"

namespace ravnest::transport::tcp {

class FrameReader {
 public:
  enum class Step : unsigned char {
    kNothing,    // all that came is used up
    kFrame,      // `header` and `body`, valid until the next call
    kChunk,      // a chunk begins: `header`, `chunk`, `chunk_size`; `receive_into` must be called before the next call
    kChunkDone,  // its data are where they belong, and sound
  };

  // From the next frame on chunks have no checksum (FrameWriter::trust_stream).
  void trust_stream() { trusts_stream_ = true; }

  // kCorrupt for what can't be a frame; the stream's own failures. No step comes after a failure.
  Result<Step> next(Stream& stream);

  const wire::FrameHeader& header() const { return header_; }
  ByteSpan body() const { return body_; }
  const wire::Chunk& chunk() const { return chunk_; }
  std::size_t chunk_size() const { return header_.size - wire::kChunkHeadBytes; }
  // `data` has the size of the chunk and stays valid until it is done.
  void receive_into(std::span<std::byte> data) { data_ = data; }

  // Of all that was read from the stream.
  std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  enum class State : unsigned char { kHeader, kBody, kData };

  // Whether that many bytes are in the buffer, after an attempt to get them.
  Result<bool> have(Stream& stream, std::size_t size);
  Result<Step> read_data(Stream& stream);
  ByteSpan take(std::size_t size);
  void sum(ByteSpan data);

  State state_ = State::kHeader;
  wire::FrameHeader header_;
  ByteSpan body_;
  wire::Chunk chunk_;
  std::span<std::byte> data_;
  std::size_t filled_ = 0;
  std::uint32_t checksum_ = 0;
  bool trusts_stream_ = false;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace ravnest::transport::tcp
