// How many batches a source gives each time that it is gone through: one that gives nothing, or less than before, would
// train nothing, or less, without a word. No torch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ravnest/base/status.h"

namespace ravnest::train {

// Why a source gives nothing the first time, and what to do about one that gives nothing the second time.
inline constexpr std::string_view kWhyEmpty =
    "it is empty, or has less than one batch, which drop_last=True leaves out";
inline constexpr std::string_view kIterateAgain =
    "give a DataLoader, a list, a tensor, or an object whose __iter__ begins anew";

// "1 batch", "no batches", "7 batches"
std::string counted(std::uint64_t batches);

// What came of a source so far, by epochs or validations.
class BatchCounts {
 public:
  // For sentences: what the source is called, and what going through it once is.
  BatchCounts(std::string what, std::string unit) : what_(std::move(what)), unit_(std::move(unit)) {}

  const std::string& unit() const { return unit_; }
  // Number `number`, from 1, is over. A line where there were fewer batches than the time before; kInvalid where there
  // were none.
  Result<std::optional<std::string>> ended(std::uint64_t number, std::uint64_t batches);

 private:
  struct Count {
    std::uint64_t number = 0;
    std::uint64_t batches = 0;
  };

  std::string what_;
  std::string unit_;
  std::optional<Count> last_;
};

}  // namespace ravnest::train
