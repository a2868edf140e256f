#include "ravnest/graph/size_operators.h"

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
  return value.isDouble() ? static_cast<std::int64_t>(value.toDouble()) : value.toInt();
}
double real(const IValue& value) { return value.isDouble() ? value.toDouble() : static_cast<double>(integer(value)); }

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
  if (is_real(a[0]) || is_real(a[1])) return std::floor(real(a[0]) / real(a[1]));
  const std::int64_t x = integer(a[0]);
  const std::int64_t y = integer(a[1]);
  TORCH_CHECK(y != 0, "a size was divided by zero");
  return x / y - ((x % y != 0 && (x < 0) != (y < 0)) ? 1 : 0);
}

IValue modulo(Arguments a) {
  const std::int64_t y = integer(a[1]);
  TORCH_CHECK(y != 0, "a size was divided by zero");
  const std::int64_t remainder = integer(a[0]) % y;
  return remainder != 0 && (remainder < 0) != (y < 0) ? remainder + y : remainder;
}

IValue power(Arguments a) {
  const double result = std::pow(real(a[0]), real(a[1]));
  if (is_real(a[0]) || is_real(a[1]) || integer(a[1]) < 0) return result;
  return static_cast<std::int64_t>(std::llround(result));
}

IValue true_divide(Arguments a) {
  TORCH_CHECK(real(a[1]) != 0, "a size was divided by zero");
  return real(a[0]) / real(a[1]);
}

IValue negate(Arguments a) { return is_real(a[0]) ? IValue(-real(a[0])) : IValue(-integer(a[0])); }
IValue same(Arguments a) { return a[0]; }
IValue truncate(Arguments a) { return integer(a[0]); }
IValue to_real(Arguments a) { return real(a[0]); }
IValue square_root(Arguments a) { return std::sqrt(real(a[0])); }
IValue logical_not(Arguments a) { return integer(a[0]) == 0; }
IValue choose(Arguments a) { return integer(a[0]) != 0 ? a[1] : a[2]; }
IValue shift_left(Arguments a) { return integer(a[0]) << integer(a[1]); }
IValue shift_right(Arguments a) { return integer(a[0]) >> integer(a[1]); }

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
      {"_operator.add", {arithmetic<std::plus<>>, 2}},
      {"_operator.sub", {arithmetic<std::minus<>>, 2}},
      {"_operator.mul", {arithmetic<std::multiplies<>>, 2}},
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
