#include "ravnest/train/rank/lockstep.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/text.h"

namespace ravnest::train {
namespace {

constexpr std::array<std::string_view, kNexts> kOfOne = {"feeds a batch", "has ended its validation",
                                                         "has ended its call"};
constexpr std::array<std::string_view, kNexts> kOfSeveral = {"feed a batch", "have ended their validation",
                                                             "have ended their call"};
constexpr std::size_t kPlace = kNexts + 2;

// Places that differ and have the same sum have a larger sum of these. They wrap around, as sums of integers do.
std::int64_t squared(std::int64_t place) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(place) * static_cast<std::uint64_t>(place));
}
std::int64_t times(std::int64_t value, int count) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(value) * static_cast<std::uint64_t>(count));
}

}  // namespace

Told tells(Next next, std::uint64_t samples, std::uint64_t correct) {
  Told told;
  told.numbers[static_cast<std::size_t>(next)] = 1;
  told.numbers[kNexts] = static_cast<std::int64_t>(samples);
  told.numbers[kNexts + 1] = static_cast<std::int64_t>(correct);
  return told;
}

Told tells_batch_at(std::uint64_t epoch, std::uint64_t index, std::uint64_t samples) {
  Told told = tells(Next::kBatch, samples);
  told.numbers[kPlace] = static_cast<std::int64_t>(epoch * 1'000'003 + index);
  told.numbers[kPlace + 1] = squared(told.numbers[kPlace]);
  return told;
}

Status check_same(const Told& sum, int world) {
  constexpr std::string_view kAdvice =
      ": every rank has to do the same, with as many batches; Trainer.train() sees to that by itself";
  std::vector<std::string> who;
  for (std::size_t i = 0; i < kNexts; ++i) {
    const std::int64_t ranks = sum.numbers[i];
    if (ranks == 1) who.push_back(text("one rank ", kOfOne[i]));
    if (ranks > 1) who.push_back(text(ranks, " ranks ", kOfSeveral[i]));
  }
  if (who.size() > 1) return invalid(join(who, " while "), kAdvice);
  const std::int64_t place = sum.numbers[kPlace];
  if (place % world == 0 && sum.numbers[kPlace + 1] == times(squared(place / world), world)) return {};
  return invalid("the ranks feed batches of different places in their epochs", kAdvice);
}

}  // namespace ravnest::train
