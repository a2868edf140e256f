#include <algorithm>
#include <set>

#include "ravnest/graph/ir/archive/archive.h"
#include "ravnest/graph/ir/verify.h"

namespace ravnest::ir {
namespace {

bool same_contents(const archive::Payload& a, const archive::Payload& b) {
  return a.dtype == b.dtype && a.sizes == b.sizes && a.strides == b.strides && a.storage_offset == b.storage_offset &&
         std::ranges::equal(a.storage->bytes, b.storage->bytes);
}

const archive::Payload* find(const archive::NamedPayloads& list, const std::string& name) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const auto& entry) { return entry.first == name; });
  return found == list.end() ? nullptr : &found->second;
}

// Constants that export lifted out of the code are numbered per capture, so one name may stand for two tensors.
void adopt_constants(Model& model, const Model& eval) {
  for (const auto& [name, payload] : eval.constants) {
    const archive::Payload* known = find(model.constants, name);
    if (known != nullptr && same_contents(*known, payload)) continue;
    std::string adopted = name;
    while (find(model.constants, adopted) != nullptr) adopted = "eval_" + adopted;
    model.constants.emplace_back(adopted, payload);
    for (Input& input : model.eval.inputs) {
      const bool is_constant =
          input.kind == InputKind::kConstant || (input.kind == InputKind::kBuffer && !input.persistent);
      if (is_constant && input.target == name) input.target = adopted;
    }
  }
}

}  // namespace

Result<Model> merge_captures(Model train, Model eval) {
  Model model = std::move(train);
  for (const auto& [name, payload] : eval.weights) {
    const archive::Payload* known = find(model.weights, name);
    if (known == nullptr || known->dtype != payload.dtype || known->sizes != payload.sizes)
      return invalid("the two captures are not of one module: \"", name, "\" differs between training and eval");
  }
  model.eval = std::move(eval.eval);
  adopt_constants(model, eval);
  if (Status status = check(model); !status.ok()) return status;
  return model;
}

}  // namespace ravnest::ir
