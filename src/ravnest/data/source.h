// Where a data set comes from: files, and what is made of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/data/samples.h"

namespace ravnest::data {

struct DataOptions {
  std::string format = {};                          // one of format_names()
  std::vector<std::filesystem::path> inputs = {};   // several are read as if they were one, one after the other
  std::vector<std::filesystem::path> targets = {};  // none where `inputs` have them too (see has_own_targets)
  std::vector<std::int64_t> shape = {};             // of one sample of the inputs; empty: as in the file
  double scale = 1;                                 // the inputs are multiplied by it
  std::int64_t one_hot = 0;                         // of how many classes the targets are; 0: they stay as they are
  std::string inputs_dtype = {};                    // "float32", as torch names them; empty: see dataset.h
  // The rows from `first` up to, not including, `last`; those left out stand for the first and for the end.
  std::optional<std::int64_t> first = {};
  std::optional<std::int64_t> last = {};
};

// digits, idx, cifar10, npy, safetensors. Of a safetensors file with several tensors those called "inputs" and
// "targets" are taken; one file may be named for both.
std::vector<std::string_view> format_names();

// Whether files of that format hold inputs and targets together (digits, cifar10).
bool has_own_targets(std::string_view format);

// All samples of the files, as they are there, each array with a first dimension. kInvalid where the options make no
// sense or inputs and targets are not equally many; otherwise the failures of formats.h. Of the options it looks at
// format, inputs and targets; the rest is load_dataset's.
Result<Samples> read_source(const DataOptions& options);

}  // namespace ravnest::data
