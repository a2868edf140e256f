#include "ravnest/checkpoint/interval.h"

#include <array>
#include <charconv>
#include <utility>

#include "ravnest/base/printable.h"
#include "ravnest/base/text.h"

namespace ravnest::checkpoint {
namespace {

using Unit = Interval::Unit;

struct Word {
  std::string_view word;
  Unit unit;
  std::uint64_t of;  // epochs, updates or seconds
};

constexpr std::array<Word, 12> kWords = {{{"epoch", Unit::kEpochs, 1},
                                          {"epochs", Unit::kEpochs, 1},
                                          {"update", Unit::kUpdates, 1},
                                          {"updates", Unit::kUpdates, 1},
                                          {"s", Unit::kSeconds, 1},
                                          {"second", Unit::kSeconds, 1},
                                          {"seconds", Unit::kSeconds, 1},
                                          {"min", Unit::kSeconds, 60},
                                          {"minutes", Unit::kSeconds, 60},
                                          {"h", Unit::kSeconds, 3600},
                                          {"hour", Unit::kSeconds, 3600},
                                          {"hours", Unit::kSeconds, 3600}}};
constexpr std::uint64_t kMost = 1'000'000'000;

}  // namespace

Result<Interval> parse_interval(std::string_view written) {
  std::uint64_t count = 1;
  std::string_view rest = written;
  if (const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), count); error == std::errc()) {
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  } else {
    count = error == std::errc::result_out_of_range ? 0 : 1;
  }
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  for (const Word& word : kWords) {
    if (word.word == rest && count > 0 && count <= kMost) return Interval{word.unit, count * word.of};
  }
  return invalid("\"", printable(written), "\" does not say how often: write \"epoch\", \"500 updates\" or \"10 min\"");
}

std::string words(const Interval& every) {
  switch (every.unit) {
    case Unit::kEpochs: return every.count == 1 ? "epoch" : text(every.count, " epochs");
    case Unit::kUpdates: return text(every.count, every.count == 1 ? " update" : " updates");
    case Unit::kSeconds: break;
  }
  if (every.count % 3600 == 0) return text(every.count / 3600, " h");
  return every.count % 60 == 0 ? text(every.count / 60, " min") : text(every.count, " s");
}

void Due::begin(std::uint64_t updates, std::uint64_t epochs, TimePoint now) {
  updates_ = updates;
  epochs_ = epochs;
  at_ = now;
}

bool Due::after_update(std::uint64_t updates, TimePoint now) const {
  switch (every_.unit) {
    case Unit::kEpochs: return false;
    // Multiples, so that a run that goes on makes the same ones.
    case Unit::kUpdates: return updates / every_.count > updates_ / every_.count;
    case Unit::kSeconds: return seconds_between(at_, now) >= static_cast<double>(every_.count);
  }
  return false;
}

bool Due::after_epoch(std::uint64_t epochs) const {
  return every_.unit == Unit::kEpochs && epochs / every_.count > epochs_ / every_.count;
}

}  // namespace ravnest::checkpoint
