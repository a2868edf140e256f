// The header of a .npy file: a literal of Python's, read without Python.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"

namespace ravnest::archive {

struct NpyHeader {
  std::string descr;  // "<f4"; empty where it is a list, of a record's fields
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, the keys in any order, each once, and spaces
// behind it. kCorrupt otherwise, with the file `name` and the character.
Result<NpyHeader> parse_npy_header(std::string_view header, std::string_view name);

}  // namespace ravnest::archive
