// How a GPU multiplies matrices and convolves in 32 bits: exactly, or in TF32, with 10 bits of the 23 and several times
// as fast.
#pragma once

#include <cstdint>
#include <string_view>

#include "ravnest/base/status.h"

namespace ravnest::train {

enum class Float32 : std::uint8_t { kExact, kTf32 };

Result<Float32> parse_float32(std::string_view name);  // "exact", "tf32"
std::string_view float32_name(Float32 mode);

// In force in the whole process from its making to its end, which puts back what was before. One at a time.
class Float32Mode {
 public:
  explicit Float32Mode(Float32 mode);
  Float32Mode(const Float32Mode&) = delete;
  Float32Mode& operator=(const Float32Mode&) = delete;
  ~Float32Mode();

 private:
  bool matrices_before_;
  bool convolutions_before_;
};

}  // namespace ravnest::train
