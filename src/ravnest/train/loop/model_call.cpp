#include "ravnest/train/loop/model_call.h"

#include <algorithm>

#include "ravnest/graph/ir/tree_spec.h"

namespace ravnest::train {
namespace {

constexpr std::string_view kCriterionKey = "logits";

}  // namespace

Status check_one_input(const ir::Signature& call) {
  const auto spec = ir::parse_tree_spec(call.in_spec);
  if (!spec.ok()) return spec.status();
  const int count = ir::leaf_count(*spec);
  if (count == 1) return {};
  return unsupported("the model takes ", count, " inputs (", join(call.argument_names),
                     "), but data files give one; train it from Python, with Node and Trainer");
}

Result<std::size_t> criterion_output(const ir::Signature& call) {
  const auto spec = ir::parse_tree_spec(call.out_spec);
  if (!spec.ok()) return spec.status();
  if (ir::leaf_count(*spec) == 0) return invalid("the model has no outputs to compute a loss from");
  if (!spec->type.ends_with("dict")) return std::size_t{0};
  const auto keys = ir::dict_keys(*spec);
  if (!keys.ok()) return std::size_t{0};
  const auto found = std::ranges::find(*keys, kCriterionKey);
  std::size_t before = 0;
  if (found == keys->end()) return before;
  for (auto i = 0; i < found - keys->begin(); ++i)
    before += static_cast<std::size_t>(ir::leaf_count(spec->children[static_cast<std::size_t>(i)]));
  return before;
}

}  // namespace ravnest::train
