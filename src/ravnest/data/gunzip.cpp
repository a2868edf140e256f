#include "ravnest/data/gunzip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

namespace ravnest::data {
namespace {

constexpr std::size_t kFirstBytes = std::size_t{64} << 10;
constexpr int kGzipWindow = 15 + 16;  // the largest window; 16 asks zlib for gzip's header and checksum

// zlib's state, freed however the function ends.
class Stream {
 public:
  Stream() { ready_ = inflateInit2(&stream_, kGzipWindow) == Z_OK; }
  ~Stream() {
    if (ready_) inflateEnd(&stream_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  bool ready() const { return ready_; }
  z_stream& operator*() { return stream_; }

 private:
  z_stream stream_ = {};
  bool ready_ = false;
};

uInt as_count(std::size_t size) {
  return static_cast<uInt>(std::min<std::size_t>(size, std::numeric_limits<uInt>::max()));
}

}  // namespace

bool is_gzip(ByteSpan bytes) { return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b}; }

Result<std::vector<std::byte>> gunzip(ByteSpan compressed, std::size_t at_most, std::string_view name) {
  Stream zlib;
  if (!zlib.ready()) return unavailable("cannot unpack ", name, ": zlib has no memory left");
  z_stream& stream = *zlib;
  std::vector<std::byte> content;
  std::size_t taken = 0;
  std::size_t filled = 0;
  while (filled < at_most) {
    if (filled == content.size()) content.resize(std::min(at_most, std::max(kFirstBytes, 2 * content.size())));
    const uInt input = as_count(compressed.size() - taken);
    const uInt room = as_count(content.size() - filled);
    // zlib does not write to its input; its interface is older than const.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(compressed.data() + taken));
    stream.avail_in = input;
    stream.next_out = reinterpret_cast<Bytef*>(content.data() + filled);
    stream.avail_out = room;
    const int code = inflate(&stream, Z_NO_FLUSH);
    taken += input - stream.avail_in;
    filled += room - stream.avail_out;
    if (code == Z_STREAM_END) {
      // gzip files may be written one behind the other, and what follows otherwise is padding, as gzip itself has it.
      if (!is_gzip(compressed.subspan(taken))) break;
      inflateReset(&stream);
    } else if (code == Z_BUF_ERROR || (code == Z_OK && taken == compressed.size() && filled < content.size())) {
      return corrupt("cannot unpack ", name, ": it ends in the middle of its compressed data, at byte ", taken);
    } else if (code == Z_MEM_ERROR) {
      return unavailable("cannot unpack ", name, ": zlib has no memory left");
    } else if (code != Z_OK) {
      return corrupt("cannot unpack ", name, ": the compressed data is broken near byte ", taken, " (",
                     stream.msg == nullptr ? "not a stream of gzip's" : stream.msg, ")");
    }
  }
  content.resize(filled);
  return content;
}

}  // namespace ravnest::data
