#include "ravnest/archive/pickle/pickle.h"

#include <algorithm>
#include <bit>

namespace ravnest::archive {

PickleWriter::PickleWriter() {
  out_.u8(0x80);  // PROTO
  out_.u8(2);
}

void PickleWriter::integer(std::int64_t value) {
  if (value >= INT32_MIN && value <= INT32_MAX) {
    out_.u8('J');
    out_.u32(static_cast<std::uint32_t>(static_cast<std::int32_t>(value)));
    return;
  }
  out_.u8(0x8a);  // LONG1: eight bytes, two's complement
  out_.u8(8);
  out_.u64(static_cast<std::uint64_t>(value));
}

void PickleWriter::number(double value) {
  out_.u8('G');  // BINFLOAT, big-endian
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int shift = 56; shift >= 0; shift -= 8) out_.u8(static_cast<std::uint8_t>(bits >> shift));
}

void PickleWriter::string(std::string_view value) {
  out_.u8('X');  // BINUNICODE
  out_.u32(static_cast<std::uint32_t>(value.size()));
  out_.string(value);
}

void PickleWriter::begin_list() {
  out_.u8(']');
  out_.u8('(');
}

void PickleWriter::begin_dict() {
  out_.u8('}');
  out_.u8('(');
}

void PickleWriter::begin_ordered_dict() {
  global("collections", "OrderedDict");
  out_.u8(')');
  out_.u8('R');
  out_.u8('(');
}

void PickleWriter::global(std::string_view module, std::string_view name) {
  out_.u8('c');
  out_.string(module);
  out_.u8('\n');
  out_.string(name);
  out_.u8('\n');
}

void PickleWriter::integers(const std::vector<std::int64_t>& values) {
  begin_tuple();
  for (const std::int64_t value : values) integer(value);
  end_tuple();
}

void PickleWriter::tensor(DType dtype, std::string_view key, std::int64_t storage_elements, std::int64_t storage_offset,
                          const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides,
                          bool requires_grad) {
  global("torch._utils", "_rebuild_tensor_v2");
  begin_tuple();
  begin_tuple();
  string("storage");
  global("torch", storage_class(dtype));
  string(key);
  string("cpu");
  integer(storage_elements);
  end_tuple();
  out_.u8('Q');  // BINPERSID
  integer(storage_offset);
  integers(sizes);
  integers(strides);
  boolean(requires_grad);
  global("collections", "OrderedDict");  // backward hooks: none
  out_.u8(')');
  out_.u8('R');
  end_tuple();
  out_.u8('R');
}

std::vector<std::byte> PickleWriter::finish() {
  out_.u8('.');
  return out_.take();
}

}  // namespace ravnest::archive
