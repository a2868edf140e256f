#include "ravnest/train/loop/criterion.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "ravnest/train/loop/leaf_labels.h"
#include "ravnest/train/loop/losses.h"

namespace ravnest::train {
namespace {

using worker::CriterionResult;

// What tensor_split cuts at that place, without making all the parts that a message speaks of.
at::Tensor part_of(const at::Tensor& whole, std::int64_t part, std::int64_t parts) {
  if (whole.dim() == 0) throw std::runtime_error("targets of a batch that is cut into parts have no first dimension");
  const std::int64_t rows = whole.size(0) / parts;
  const std::int64_t left = whole.size(0) % parts;  // one more in each of the first parts
  return whole.narrow(0, part * rows + std::min(part, left), rows + (part < left ? 1 : 0));
}

struct Targets {
  DatasetTargets source;
  LeafLabels labels;
};

class LeafCriterion {
 public:
  explicit LeafCriterion(CriterionOptions options)
      : options_(std::move(options)), loss_(*make_loss(name(options_.loss))) {
    const LabelNames names{options_.node, options_.root, "the same files, rows, batch size, seed and shuffle"};
    if (options_.training)
      training_.emplace(DatasetTargets(*options_.training, DataOrder::kOfEachEpoch), LeafLabels(names));
    if (options_.validation)
      validation_.emplace(DatasetTargets(*options_.validation, DataOrder::kOfTheFirst), LeafLabels(names));
  }
  LeafCriterion(const LeafCriterion&) = delete;  // the targets point into the options
  LeafCriterion& operator=(const LeafCriterion&) = delete;

  CriterionResult operator()(const wire::PassHead& head, const std::vector<c10::IValue>& outputs) {
    const bool trains = head.kind == wire::PassKind::kTrain;
    const at::Tensor output = output_of(outputs, trains ? options_.train_output : options_.eval_output);
    at::Tensor target = targets_of(head, trains);
    if (head.parts > 1) target = part_of(target, head.part, head.parts);
    target = target.to(output.device());
    if (!trains) {
      const auto [correct, counted] = correct_of(output, target);
      return {at::Tensor(), counted, correct};
    }
    return {loss_of(output, target), output.dim() > 0 ? static_cast<std::uint64_t>(output.size(0)) : 1, 0};
  }

 private:
  static at::Tensor output_of(const std::vector<c10::IValue>& outputs, std::size_t index) {
    if (index < outputs.size() && outputs[index].isTensor()) return outputs[index].toTensor();
    throw std::runtime_error("the model's output is not a tensor, and a loss by name needs one");
  }

  at::Tensor loss_of(const at::Tensor& output, const at::Tensor& target) const {
    try {
      return loss_(output, target);
    } catch (const c10::Error& error) {
      throw std::runtime_error(text("the loss ", name(options_.loss), " cannot be computed from outputs ",
                                    output.sizes(), " (", output.scalar_type(), ") and targets ", target.sizes(), " (",
                                    target.scalar_type(), "): ", error.what_without_backtrace()));
    }
  }

  const at::Tensor& targets_of(const wire::PassHead& head, bool trains) {
    auto& own = trains ? training_ : validation_;
    if (!own) {
      throw std::runtime_error(text("the leaf ", options_.node, " has no ", trains ? "[data]" : "[validation]",
                                    " in its train.toml, but ", options_.root, " sent batch ", head.index, " of epoch ",
                                    head.epoch, ": start all nodes with the same file"));
    }
    if (Status found = own->labels.go_to(own->source, head.epoch, head.index, head.digest); !found.ok())
      throw std::runtime_error(found.message());
    return own->source.targets();
  }

  const CriterionOptions options_;
  const Loss loss_;
  std::optional<Targets> training_;
  std::optional<Targets> validation_;
};

}  // namespace

worker::Criterion make_criterion(CriterionOptions options) {
  // Shared, since std::function copies what it holds.
  return
      [criterion = std::make_shared<LeafCriterion>(std::move(options))](
          const wire::PassHead& head, const std::vector<c10::IValue>& outputs) { return (*criterion)(head, outputs); };
}

}  // namespace ravnest::train
