// What the tests of the readers share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/archive/array.h"
#include "ravnest/base/bytes.h"
#include "ravnest/base/slice.h"

namespace ravnest::archive::testing {

// On memory of its own size, where a look beyond the end is seen by the address sanitizer.
inline Slice slice(std::string_view content) {
  const ByteSpan bytes = as_byte_span(content);
  return slice_of({bytes.begin(), bytes.end()});
}

template <class T>
std::vector<T> numbers(const Array& array) {
  std::vector<T> values(array.bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), array.bytes.bytes.data(), values.size() * sizeof(T));
  return values;
}

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

inline std::string gzipped(std::string_view content) {
  z_stream stream = {};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// As numpy.save writes it, with the header given.
inline std::string npy(std::string header, std::string_view data, char version = 1) {
  const std::size_t fixed = version == 1 ? 10 : 12;
  header.append(63 - (fixed + header.size()) % 64, ' ');
  header += '\n';
  ByteWriter file;
  file.string("\x93NUMPY");
  file.u8(static_cast<std::uint8_t>(version));
  file.u8(0);
  if (version == 1) {
    file.u16(static_cast<std::uint16_t>(header.size()));
  } else {
    file.u32(static_cast<std::uint32_t>(header.size()));
  }
  file.string(header);
  file.string(data);
  return std::string(as_string_view(file.bytes()));
}

inline std::string npy_of(std::string_view descr, std::string_view shape, std::string_view data) {
  return npy(text("{'descr': '", descr, "', 'fortran_order': False, 'shape': ", shape, ", }"), data);
}

// A failure with that code whose message has those words.
template <class T>
void expect_failure(const Result<T>& result, Code code, std::string_view words) {
  ASSERT_FALSE(result.ok()) << "expected: " << words;
  EXPECT_EQ(result.status().code(), code) << result.status();
  EXPECT_THAT(result.status().message(), ::testing::HasSubstr(std::string(words)));
}

}  // namespace ravnest::archive::testing
