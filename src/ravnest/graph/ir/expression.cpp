#include "ravnest/graph/ir/expression.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <numeric>

namespace ravnest::ir {
namespace {

constexpr int kMaxDepth = 64;

constexpr std::array<std::string_view, 21> kFunctions = {
    "Add",        "Mul",       "Pow",        "FloorDiv", "CleanDiv", "IntTrueDiv",   "FloatTrueDiv",
    "Mod",        "PythonMod", "Max",        "Min",      "Rational", "floor",        "ceiling",
    "FloorToInt", "CeilToInt", "TruncToInt", "ToFloat",  "Abs",      "PowByNatural", "Identity"};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Expression> parse() {
    Result<Expression> result = expression(0);
    if (result.ok() && position_ != text_.size()) return error("text after the expression");
    return result;
  }

 private:
  Status error(std::string_view what) const {
    return unsupported("size expression \"", text_.substr(0, 120), "\": ", what, " at character ", position_);
  }

  void skip_space() {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
  }

  bool accept(char c) {
    skip_space();
    if (position_ >= text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  std::string_view word() {
    skip_space();
    const std::size_t start = position_;
    const auto is_word = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
             c == '-' || c == '+';
    };
    while (position_ < text_.size() && is_word(text_[position_])) ++position_;
    return text_.substr(start, position_ - start);
  }

  Result<std::string> quoted() {
    if (!accept('\'')) return error("expected a quoted name");
    const std::size_t end = text_.find('\'', position_);
    if (end == std::string_view::npos || end == position_) return error("expected a quoted name");
    std::string name(text_.substr(position_, end - position_));
    position_ = end + 1;
    return name;
  }

  Result<double> number() {
    const std::string_view digits = word();
    double value = 0;
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (failure != std::errc() || end != digits.data() + digits.size() || digits.empty())
      return error("expected a number");
    return value;
  }

  Result<Expression> symbol() {
    Result<std::string> name = quoted();
    if (!name.ok()) return name.status();
    while (accept(',')) {  // assumptions such as integer=True
      if (word().empty() || !accept('=') || word().empty()) return error("expected an assumption");
    }
    if (!accept(')')) return error("expected ')'");
    return Expression{"Symbol", *name, 0, {}};
  }

  Result<Expression> literal(std::string function) {
    Expression result{std::move(function), "", 0, {}};
    if (text_.substr(position_).starts_with('\'')) ++position_;
    Result<double> value = number();
    if (!value.ok()) return value.status();
    if (position_ < text_.size() && text_[position_] == '\'') ++position_;
    result.number = *value;
    while (accept(',')) {  // Float('0.5', precision=53)
      if (word().empty() || !accept('=') || word().empty()) return error("expected an option");
    }
    if (!accept(')')) return error("expected ')'");
    return result;
  }

  Result<Expression> expression(int depth) {
    if (depth > kMaxDepth) return error("nested too deeply");
    const std::string function(word());
    if (function.empty()) return error("expected a name");
    if (!accept('(')) {
      double value = 0;
      const auto [end, failure] = std::from_chars(function.data(), function.data() + function.size(), value);
      if (failure == std::errc() && end == function.data() + function.size())
        return Expression{"Integer", "", value, {}};
      return error("expected '(' after \"" + function + "\"");
    }
    if (function == "Symbol") return symbol();
    if (function == "Integer" || function == "Float") return literal("Integer");
    if (std::find(kFunctions.begin(), kFunctions.end(), function) == kFunctions.end())
      return error("unknown function \"" + function + "\"");
    Expression result{function, "", 0, {}};
    do {
      Result<Expression> argument = expression(depth + 1);
      if (!argument.ok()) return argument;
      result.arguments.push_back(std::move(*argument));
    } while (accept(','));
    if (!accept(')')) return error("expected ')'");
    return result;
  }

  std::string_view text_;
  std::size_t position_ = 0;
};

Result<double> call(const std::string& f, const std::vector<double>& x) {
  if (f == "Add") return std::accumulate(x.begin(), x.end(), 0.0);
  if (f == "Mul") return std::accumulate(x.begin(), x.end(), 1.0, std::multiplies<>());
  if (f == "Max") return *std::max_element(x.begin(), x.end());
  if (f == "Min") return *std::min_element(x.begin(), x.end());
  if (f == "floor" || f == "FloorToInt") return std::floor(x[0]);
  if (f == "ceiling" || f == "CeilToInt") return std::ceil(x[0]);
  if (f == "TruncToInt") return std::trunc(x[0]);
  if (f == "ToFloat" || f == "Identity") return x[0];
  if (f == "Abs") return std::fabs(x[0]);
  if (x.size() != 2) return invalid(f, " takes two arguments, not ", x.size());
  if (f == "Pow" || f == "PowByNatural") return std::pow(x[0], x[1]);
  if (x[1] == 0) return invalid("division by zero in a size expression");
  if (f == "FloorDiv" || f == "CleanDiv") return std::floor(x[0] / x[1]);
  if (f == "Mod" || f == "PythonMod") return x[0] - x[1] * std::floor(x[0] / x[1]);
  return x[0] / x[1];
}

}  // namespace

Result<Expression> parse_expression(std::string_view text) { return Parser(text).parse(); }

Result<double> evaluate(const Expression& expression, const SymbolValues& symbols) {
  if (expression.function == "Integer") return expression.number;
  if (expression.function == "Symbol") {
    const auto found = symbols.find(expression.symbol);
    if (found == symbols.end()) return invalid("symbol ", expression.symbol, " has no value");
    return static_cast<double>(found->second);
  }
  std::vector<double> arguments;
  for (const Expression& argument : expression.arguments) {
    const Result<double> value = evaluate(argument, symbols);
    if (!value.ok()) return value;
    arguments.push_back(*value);
  }
  return call(expression.function, arguments);
}

Result<std::int64_t> evaluate(const Size& size, const SymbolValues& symbols) {
  if (!size.symbolic()) return size.hint;
  const Result<Expression> expression = parse_expression(size.expression);
  if (!expression.ok()) return expression.status();
  const Result<double> value = evaluate(*expression, symbols);
  if (!value.ok()) return value.status();
  if (!std::isfinite(*value) || std::fabs(*value) > 9e15) return invalid("a size is out of range: ", size.expression);
  return static_cast<std::int64_t>(std::llround(*value));
}

std::string bare_symbol(const Size& size) {
  if (!size.expression.starts_with("Symbol(")) return {};
  const Result<Expression> expression = parse_expression(size.expression);
  return expression.ok() && expression->function == "Symbol" ? expression->symbol : std::string();
}

std::string symbol_text(std::string_view name) {
  return "Symbol('" + std::string(name) + "', positive=True, integer=True)";
}

}  // namespace ravnest::ir
