#include "ravnest/report/progress_line.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>
#include <string_view>
#include <vector>

#include "ravnest/base/text.h"
#include "ravnest/base/words/units.h"

namespace ravnest::report {
namespace {

constexpr int kLongestBar = 20;
constexpr int kShortestBar = 8;

enum class Wording { kFull, kBrief };

std::string loss_words(double loss) {
  if (std::isnan(loss)) return "nan";
  const double size = std::abs(loss);
  std::ostringstream out;
  if ((size > 0 && size < 0.001) || size >= 1e6) {
    out << std::scientific << std::setprecision(2) << loss;
  } else {
    out << std::fixed << std::setprecision(4) << loss;
  }
  return out.str();
}

std::string percent_words(double percent) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(2) << percent << " %";
  return out.str();
}

std::string epoch_words(const ProgressFacts& facts) {
  return facts.epochs > 0 ? text("epoch ", facts.epoch, "/", facts.epochs) : text("epoch ", facts.epoch);
}

bool batches_known(const ProgressFacts& facts) { return facts.batches > 0; }

// Rounded down: 100 % means that nothing is left.
std::string share_words(const ProgressFacts& facts) {
  const auto percent = static_cast<int>(100.0 * static_cast<double>(std::min(facts.batch, facts.batches)) /
                                        static_cast<double>(facts.batches));
  return text(std::setw(3), percent, " %");
}

std::string bar_of(const ProgressFacts& facts, int length) {
  const double share = static_cast<double>(std::min(facts.batch, facts.batches)) / static_cast<double>(facts.batches);
  const auto done = static_cast<std::size_t>(share * length);
  return text("[", std::string(done, '#'), std::string(static_cast<std::size_t>(length) - done, '-'), "]");
}

std::string rate_words(const ProgressFacts& facts, Wording wording) {
  return text(compact(facts.samples_per_s), wording == Wording::kFull ? " samples/s" : "/s");
}

bool rate_known(const ProgressFacts& facts) { return std::isfinite(facts.samples_per_s) && facts.samples_per_s > 0; }

// What stands behind the epoch and the bar, each part with the two spaces before it.
struct Tail {
  std::string percent, loss, accuracy, rate, left;

  std::string line() const { return percent + loss + accuracy + rate + left; }
};

Tail tail_of(const ProgressFacts& facts, Wording wording) {
  Tail tail;
  // With its three places the percent has a space of its own before it, but for the last.
  tail.percent = batches_known(facts) ? " " + share_words(facts) : text("  batch ", facts.batch);
  if (facts.loss) tail.loss = "  loss " + loss_words(*facts.loss);
  if (facts.accuracy)
    tail.accuracy = text(wording == Wording::kFull ? "  accuracy " : "  acc ", percent_words(*facts.accuracy));
  if (rate_known(facts)) tail.rate = "  " + rate_words(facts, wording);
  if (facts.seconds_left) tail.left = text("  ", clock_time(*facts.seconds_left), " left");
  return tail;
}

}  // namespace

std::string bar_line(const ProgressFacts& facts, int width) {
  if (width <= 0) return "";
  const auto room = static_cast<std::size_t>(width);
  const std::string head = epoch_words(facts);
  for (const Wording wording : {Wording::kFull, Wording::kBrief}) {
    const std::string tail = tail_of(facts, wording).line();
    if (!batches_known(facts)) {
      if (head.size() + tail.size() <= room) return head + tail;
      continue;
    }
    const std::size_t frame = std::string_view(" []").size();
    const int length = std::min(kLongestBar, width - static_cast<int>(head.size() + frame + tail.size()));
    // Full words with a stump of a bar look worse than short words with a whole one.
    if (length >= (wording == Wording::kFull ? kLongestBar / 2 : kShortestBar))
      return text(head, " ", bar_of(facts, length), tail);
  }
  Tail tail = tail_of(facts, Wording::kBrief);
  for (std::string* part : {&tail.rate, &tail.accuracy, &tail.left, &tail.loss, &tail.percent}) {
    if (head.size() + tail.line().size() <= room) break;
    part->clear();
  }
  return (head + tail.line()).substr(0, room);
}

std::string plain_line(const ProgressFacts& facts) {
  std::string line = epoch_words(facts);
  if (!batches_known(facts)) {
    line += text(", batch ", facts.batch);
  } else if (facts.batch < facts.batches) {
    line += text(", batch ", facts.batch, " of ", facts.batches);
  }
  std::vector<std::string> parts;
  if (facts.loss) parts.push_back("loss " + loss_words(*facts.loss));
  if (facts.accuracy) parts.push_back("accuracy " + percent_words(*facts.accuracy));
  if (rate_known(facts)) parts.push_back(rate_words(facts, Wording::kFull));
  if (facts.seconds_left) parts.push_back(clock_time(*facts.seconds_left) + " left");
  return parts.empty() ? line : text(line, ": ", join(parts));
}

}  // namespace ravnest::report
