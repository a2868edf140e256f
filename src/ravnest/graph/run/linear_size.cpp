#include "ravnest/graph/run/linear_size.h"

#include <cmath>

#include "ravnest/base/text.h"
#include "ravnest/graph/ir/expression.h"

namespace ravnest::graph {
namespace {

// Far above any size; products of two stay exact in 64 bits.
constexpr double kLargest = 1 << 30;

// A sum of terms in at most one symbol; an empty symbol stands for a number.
std::optional<LinearSize> linear(const ir::Expression& expression) {
  if (expression.function == "Symbol") return LinearSize{expression.symbol};
  if (expression.function == "Integer") {
    if (std::floor(expression.number) != expression.number || std::fabs(expression.number) > kLargest) return {};
    return LinearSize{"", 0, static_cast<std::int64_t>(expression.number)};
  }
  const bool adds = expression.function == "Add";
  if (!adds && expression.function != "Mul") return {};
  LinearSize all{"", 0, adds ? 0 : 1};
  for (const ir::Expression& argument : expression.arguments) {
    const auto own = linear(argument);
    if (!own) return {};
    const bool both = !all.symbol.empty() && !own->symbol.empty();
    if (both && (!adds || all.symbol != own->symbol)) return {};
    if (adds) {
      all.factor += own->factor;
      all.offset += own->offset;
    } else {
      all.factor = all.factor * own->offset + all.offset * own->factor;
      all.offset *= own->offset;
    }
    if (all.symbol.empty()) all.symbol = own->symbol;
    if (std::fabs(static_cast<double>(all.factor)) > kLargest || std::fabs(static_cast<double>(all.offset)) > kLargest)
      return {};
  }
  return all;
}

}  // namespace

std::optional<std::int64_t> LinearSize::symbol_at(std::int64_t size) const {
  if (size < offset || (size - offset) % factor != 0) return {};
  return (size - offset) / factor;
}

std::optional<LinearSize> linear_size(const ir::Size& size) {
  if (!size.symbolic()) return {};
  const auto expression = ir::parse_expression(size.expression);
  if (!expression.ok()) return {};
  const auto found = linear(*expression);
  return found && !found->symbol.empty() && found->factor >= 1 ? found : std::nullopt;
}

std::string in_words(const LinearSize& size, std::int64_t min, std::int64_t max) {
  std::string form;
  if (size.factor > 1) {
    const std::int64_t offset = size.offset % size.factor;
    form = text("a multiple of ", size.factor);
    if (offset != 0) form += offset > 0 ? text(" plus ", offset) : text(" less ", -offset);
  }
  const std::int64_t least = size.at(min);
  const bool bounded = max < kNoLimit / (size.factor + 1);
  const std::string limits = least > 0 && bounded ? text("from ", least, " to ", size.at(max))
                             : least > 0          ? text("at least ", least)
                             : bounded            ? text("at most ", size.at(max))
                                                  : "";
  return form.empty() || limits.empty() ? form + limits : form + " and " + limits;
}

}  // namespace ravnest::graph
