// Frames into a stream, from the memory in which their data lie.
//
// Not thread-safe; one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "ravnest/base/slice.h"
#include "ravnest/base/status.h"
#include "ravnest/transport/tcp/stream.h"
#include "ravnest/wire/frame.h"

namespace ravnest::transport::tcp {

class FrameWriter {
 public:
  // From now on chunks have no checksum: the stream sees to it that they arrive as they are, and the reader knows.
  void trust_stream() { trusts_stream_ = true; }

  // Queues a frame whose body is `head` and then `data`; together no more than its kind may have.
  void add(wire::FrameKind kind, std::uint8_t lane, std::vector<std::byte> head, std::vector<Slice> data = {});

  // Writes what the stream takes; whether all is written.
  Result<bool> flush(Stream& stream);

  std::size_t pending_bytes() const { return pending_bytes_; }
  std::uint64_t bytes_written() const { return bytes_written_; }

 private:
  std::deque<Slice> pending_;
  std::size_t skip_ = 0;  // bytes of the first that went
  std::size_t pending_bytes_ = 0;
  std::uint64_t bytes_written_ = 0;
  bool trusts_stream_ = false;
  std::vector<ByteSpan> pieces_;  // of one call; kept for its memory
};

}  // namespace ravnest::transport::tcp
