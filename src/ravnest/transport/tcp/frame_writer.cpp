#include "ravnest/transport/tcp/frame_writer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ravnest/codec/crc32c.h"

namespace ravnest::transport::tcp {

void FrameWriter::add(wire::FrameKind kind, std::uint8_t lane, std::vector<std::byte> head, std::vector<Slice> data) {
  const bool sums = !trusts_stream_ || kind != wire::FrameKind::kChunk;
  wire::FrameHeader header{kind, lane, static_cast<std::uint32_t>(head.size()), sums ? codec::crc32c(head) : 0};
  for (const Slice& slice : data) {
    header.size += static_cast<std::uint32_t>(slice.size());
    if (sums) header.checksum = codec::crc32c(slice.bytes, header.checksum);
  }
  const auto encoded = wire::encode(header);
  head.insert(head.begin(), encoded.begin(), encoded.end());
  pending_bytes_ += wire::kHeaderBytes + header.size;
  pending_.push_back(slice_of(std::move(head)));
  std::ranges::move(data, std::back_inserter(pending_));
}

Result<bool> FrameWriter::flush(Stream& stream) {
  while (!pending_.empty()) {
    pieces_.clear();
    for (const Slice& slice : pending_) {
      pieces_.push_back(slice.bytes);
      if (pieces_.size() == Stream::kMostPieces) break;
    }
    pieces_.front() = pieces_.front().subspan(skip_);
    const auto written = stream.write(pieces_);
    if (!written.ok()) return written.status();
    if (*written == 0) return false;
    pending_bytes_ -= *written;
    bytes_written_ += *written;
    skip_ += *written;
    while (!pending_.empty() && skip_ >= pending_.front().size()) {
      skip_ -= pending_.front().size();
      pending_.pop_front();
    }
  }
  return stream.flush();
}

}  // namespace ravnest::transport::tcp
