#include "ravnest/train/config/loss_name.h"

#include <array>
#include <cctype>
#include <string>

#include "ravnest/base/printable.h"
#include "ravnest/base/words/nearest.h"

namespace ravnest::train {
namespace {

constexpr std::array<std::string_view, 9> kNames = {
    "mse", "l1", "smooth_l1", "huber", "cross_entropy", "nll", "bce", "bce_with_logits", "kl_div",
};

// What all spellings of one loss have in common: "MSELoss", "mse_loss" and "mse" are "mse".
std::string bare(std::string_view written) {
  std::string letters;
  for (const char each : written) {
    if (each != '_') letters += static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
  }
  constexpr std::string_view kEnd = "loss";
  if (letters.ends_with(kEnd)) letters.resize(letters.size() - kEnd.size());
  constexpr std::string_view kLongBce = "binarycrossentropy";
  if (letters.starts_with(kLongBce)) letters.replace(0, kLongBce.size(), "bce");
  return letters;
}

}  // namespace

std::span<const std::string_view> loss_names() { return kNames; }

std::string_view name(LossKind loss) { return kNames.at(static_cast<std::size_t>(loss)); }

Result<LossKind> parse_loss(std::string_view written) {
  const std::string wanted = bare(written);
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (bare(kNames[i]) == wanted) return static_cast<LossKind>(i);
  }
  return invalid("there is no loss \"", printable(written.substr(0, 60)), "\"; there are ", join(kNames),
                 did_you_mean(written, kNames));
}

}  // namespace ravnest::train
