// Symbolic sizes: sympy expressions as `.pt2` archives spell them, e.g.
//   Mul(Integer(2), Symbol('s77', positive=True, integer=True))
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/graph/ir/graph.h"

namespace ravnest::ir {

using SymbolValues = std::map<std::string, std::int64_t>;

struct Expression {
  std::string function;  // "Add", "FloorDiv", ...; "Symbol" and "Integer" are the leaves
  std::string symbol;
  double number = 0;
  std::vector<Expression> arguments;
};

// Refuses what it does not know by name. Nesting is bounded, so hostile text cannot exhaust the stack.
Result<Expression> parse_expression(std::string_view text);

// kInvalid where a symbol has no value or an operation has none (division by zero).
Result<double> evaluate(const Expression& expression, const SymbolValues& symbols);

// The size under these symbols; the hint where it is a plain number.
Result<std::int64_t> evaluate(const Size& size, const SymbolValues& symbols);

// "s77" where the size is just that symbol, else "".
std::string bare_symbol(const Size& size);

// The text of a symbol as torch writes it.
std::string symbol_text(std::string_view name);

}  // namespace ravnest::ir
