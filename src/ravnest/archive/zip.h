// Zip archives whose records are stored, not compressed: the container of `.pt2` and `.pt` files.
//
// Reading works on bytes that are already there (a mapped file) and hands out slices of them, so that weights are
// never copied and a lying header cannot make anybody allocate. Every offset and length is checked before use, and a
// record's CRC before its bytes are handed out. Compressed and encrypted records are refused, and so are records that
// overlap: a small file must not pass for many large tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/bytes.h"
#include "ravnest/base/status.h"

namespace ravnest::archive {

class ZipReader {
 public:
  // `bytes` must outlive the reader and all that it hands out.
  static Result<ZipReader> open(ByteSpan bytes);

  bool contains(const std::string& name) const { return records_.contains(name); }
  Result<ByteSpan> record(const std::string& name) const;
  std::vector<std::string> names() const;

 private:
  struct Record {
    ByteSpan bytes;
    std::uint32_t crc = 0;
  };
  std::map<std::string, Record> records_;
};

// From which sizes on the 64-bit fields of the format are used. Smaller ones than these serve tests.
struct ZipLimits {
  std::uint64_t bytes = 0xffffffff;
  std::uint64_t records = 0xffff;
};

// Writes records one after the other to `sink`, which takes the archive's bytes in order.
// Payloads start at multiples of 64 bytes, as torch's own reader expects.
class ZipWriter {
 public:
  using Sink = std::function<Status(ByteSpan)>;
  explicit ZipWriter(Sink sink, ZipLimits limits = {}) : sink_(std::move(sink)), limits_(limits) {}

  Status add(const std::string& name, ByteSpan bytes);
  Status add(const std::string& name, std::string_view contents);
  Status finish();

 private:
  struct Entry {
    std::string name;
    std::uint64_t size = 0;
    std::uint64_t offset = 0;
    std::uint32_t crc = 0;
  };
  Status write(ByteSpan bytes);

  Sink sink_;
  ZipLimits limits_;
  std::uint64_t position_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace ravnest::archive
