// Writes what `torch.load(..., weights_only=True)` reads: a protocol-2 pickle in a zip, tensors as persistent ids.
//
// Only writing; pickle_read.h reads. Nothing here, or anywhere in ravnest, ever runs a pickle.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/bytes.h"
#include "ravnest/base/dtype.h"

namespace ravnest::archive {

class PickleWriter {
 public:
  PickleWriter();

  void none() { out_.u8('N'); }
  void boolean(bool value) { out_.u8(value ? 0x88 : 0x89); }
  void integer(std::int64_t value);
  void number(double value);
  void string(std::string_view value);
  void begin_tuple() { out_.u8('('); }
  void end_tuple() { out_.u8('t'); }
  void begin_list();
  void end_list() { out_.u8('e'); }
  void begin_dict();          // then key, value, key, value, ...
  void begin_ordered_dict();  // the same, as a collections.OrderedDict
  void end_dict() { out_.u8('u'); }

  // A tensor on the CPU whose storage is the archive's record `data/<key>` of `storage_elements` elements.
  void tensor(DType dtype, std::string_view key, std::int64_t storage_elements, std::int64_t storage_offset,
              const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides, bool requires_grad);

  std::vector<std::byte> finish();

 private:
  void global(std::string_view module, std::string_view name);
  void integers(const std::vector<std::int64_t>& values);

  ByteWriter out_;
};

}  // namespace ravnest::archive
