#include "ravnest/graph/operators/size_operators.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

namespace ravnest::graph {
namespace {

using c10::IValue;
using Arguments = std::span<const IValue>;

bool is_real(const IValue& value) { return value.isDouble(); }
std::int64_t integer(const IValue& value) {
  if (value.isBool()) return value.toBool() ? 1 : 0;
  if (!value.isDouble()) return value.toInt();
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  TORCH_CHECK(value.toDouble() >= -kLimit && value.toDouble() < kLimit, value.toDouble(), " is no whole number");
  return static_cast<std::int64_t>(value.toDouble());
}
double real(const IValue& value) { return value.isDouble() ? value.toDouble() : static_cast<double>(integer(value)); }

// Python's whole numbers have no end; ours do, and say so.
struct Plus {
  double operator()(double a, double b) const { return a + b; }
  std::int64_t operator()(std::int64_t a, std::int64_t b) const {
    std::int64_t result = 0;
    TORCH_CHECK(!__builtin_add_overflow(a, b, &result), "a size is too large: ", a, " + ", b);
    return result;
  }
};
struct Minus {
  double operator()(double a, double b) const { return a - b; }
  std::int64_t operator()(std::int64_t a, std::int64_t b) const {
    std::int64_t result = 0;
    TORCH_CHECK(!__builtin_sub_overflow(a, b, &result), "a size is too large: ", a, " - ", b);
    return result;
  }
};
struct Times {
  double operator()(double a, double b) const { return a * b; }
  std::int64_t operator()(std::int64_t a, std::int64_t b) const {
    std::int64_t result = 0;
    TORCH_CHECK(!__builtin_mul_overflow(a, b, &result), "a size is too large: ", a, " * ", b);
    return result;
  }
};

// Python's arithmetic: whole numbers stay whole unless a float is involved.
template <class Operation>
IValue arithmetic(Arguments a) {
  if (is_real(a[0]) || is_real(a[1])) return Operation()(real(a[0]), real(a[1]));
  return Operation()(integer(a[0]), integer(a[1]));
}

template <class Comparison>
IValue compare(Arguments a) {
  if (is_real(a[0]) || is_real(a[1])) return Comparison()(real(a[0]), real(a[1]));
  return Comparison()(integer(a[0]), integer(a[1]));
}

IValue floor_divide(Arguments a) {
  TORCH_CHECK(real(a[1]) != 0, "a size was divided by zero");
  if (is_real(a[0]) || is_real(a[1])) return std::floor(real(a[0]) / real(a[1]));
  const std::int64_t x = integer(a[0]);
  const std::int64_t y = integer(a[1]);
  if (y == -1) return Minus()(std::int64_t{0}, x);  // the one quotient that may not fit, and then traps
  return x / y - ((x % y != 0 && (x < 0) != (y < 0)) ? 1 : 0);
}

IValue modulo(Arguments a) {
  TORCH_CHECK(real(a[1]) != 0, "a size was divided by zero");
  if (is_real(a[0]) || is_real(a[1])) {
    const double remainder = std::fmod(real(a[0]), real(a[1]));
    return remainder != 0 && (remainder < 0) != (real(a[1]) < 0) ? remainder + real(a[1]) : remainder;
  }
  const std::int64_t y = integer(a[1]);
  if (y == -1) return std::int64_t{0};
  const std::int64_t remainder = integer(a[0]) % y;
  return remainder != 0 && (remainder < 0) != (y < 0) ? remainder + y : remainder;
}

IValue power(Arguments a) {
  if (is_real(a[0]) || is_real(a[1]) || integer(a[1]) < 0) return std::pow(real(a[0]), real(a[1]));
  std::int64_t result = 1;
  std::int64_t square = integer(a[0]);
  for (std::int64_t left = integer(a[1]); left > 0; left /= 2) {
    if (left % 2 != 0) result = Times()(result, square);
    if (left > 1) square = Times()(square, square);
  }
  return result;
}

IValue true_divide(Arguments a) {
  TORCH_CHECK(real(a[1]) != 0, "a size was divided by zero");
  return real(a[0]) / real(a[1]);
}

IValue negate(Arguments a) {
  return is_real(a[0]) ? IValue(-real(a[0])) : IValue(Minus()(std::int64_t{0}, integer(a[0])));
}
IValue same(Arguments a) { return a[0]; }
IValue truncate(Arguments a) { return integer(a[0]); }
IValue to_real(Arguments a) { return real(a[0]); }
IValue square_root(Arguments a) { return std::sqrt(real(a[0])); }
IValue logical_not(Arguments a) { return integer(a[0]) == 0; }
IValue choose(Arguments a) { return integer(a[0]) != 0 ? a[1] : a[2]; }
IValue shift_left(Arguments a) {
  TORCH_CHECK(integer(a[1]) >= 0 && integer(a[1]) < 63, "a size was shifted by ", integer(a[1]), " bits");
  return Times()(integer(a[0]), std::int64_t{1} << integer(a[1]));
}
IValue shift_right(Arguments a) {
  TORCH_CHECK(integer(a[1]) >= 0, "a size was shifted by ", integer(a[1]), " bits");
  return integer(a[0]) >> std::min<std::int64_t>(integer(a[1]), 63);
}

IValue both(Arguments a) {
  if (a[0].isBool() && a[1].isBool()) return a[0].toBool() && a[1].toBool();
  return integer(a[0]) & integer(a[1]);
}
IValue either(Arguments a) {
  if (a[0].isBool() && a[1].isBool()) return a[0].toBool() || a[1].toBool();
  return integer(a[0]) | integer(a[1]);
}

struct Larger {
  template <class T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};
struct Smaller {
  template <class T>
  T operator()(T a, T b) const {
    return std::min(a, b);
  }
};

IValue size_of_dimension(Arguments a) { return a[0].toTensor().size(a[1].toInt()); }

const std::map<std::string, SizeOperator, std::less<>>& table() {
  static const std::map<std::string, SizeOperator, std::less<>> entries = {
      {"_operator.add", {arithmetic<Plus>, 2}},
      {"_operator.sub", {arithmetic<Minus>, 2}},
      {"_operator.mul", {arithmetic<Times>, 2}},
      {"_operator.floordiv", {floor_divide, 2}},
      {"_operator.truediv", {true_divide, 2}},
      {"_operator.mod", {modulo, 2}},
      {"_operator.pow", {power, 2}},
      {"_operator.neg", {negate, 1}},
      {"_operator.pos", {same, 1}},
      {"_operator.eq", {compare<std::equal_to<>>, 2}},
      {"_operator.ne", {compare<std::not_equal_to<>>, 2}},
      {"_operator.lt", {compare<std::less<>>, 2}},
      {"_operator.le", {compare<std::less_equal<>>, 2}},
      {"_operator.gt", {compare<std::greater<>>, 2}},
      {"_operator.ge", {compare<std::greater_equal<>>, 2}},
      {"_operator.and_", {both, 2}},
      {"_operator.or_", {either, 2}},
      {"_operator.lshift", {shift_left, 2}},
      {"_operator.rshift", {shift_right, 2}},
      {"math.trunc", {truncate, 1}},
      {"torch.sym_int", {truncate, 1}},
      {"torch.sym_float", {to_real, 1}},
      {"torch.sym_max", {arithmetic<Larger>, 2}},
      {"torch.sym_min", {arithmetic<Smaller>, 2}},
      {"torch.sym_not", {logical_not, 1}},
      {"torch.sym_ite", {choose, 3}},
      {"torch.sym_sqrt", {square_root, 1}},
      {"torch.ops.aten.sym_size.int", {size_of_dimension, 2}},
  };
  return entries;
}

}  // namespace

const SizeOperator* find_size_operator(const std::string& target) {
  const auto found = table().find(target);
  return found == table().end() ? nullptr : &found->second;
}

}  // namespace ravnest::graph
