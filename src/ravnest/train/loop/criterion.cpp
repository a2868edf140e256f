#include "ravnest/train/loop/criterion.h"

#include <ATen/ATen.h>

#include <array>
#include <memory>
#include <stdexcept>
#include <utility>

#include "ravnest/train/loop/losses.h"
#include "ravnest/train/node/labels.h"

namespace ravnest::train {
namespace {

using worker::Verdict;

class LeafCriterion {
 public:
  explicit LeafCriterion(CriterionOptions options)
      : options_(std::move(options)), loss_(*make_loss(name(options_.loss))) {}

  Verdict operator()(const wire::PassHead& head, const std::vector<c10::IValue>& outputs) {
    const bool trains = head.kind == wire::PassKind::kTrain;
    const at::Tensor output = output_of(outputs, trains ? options_.train_output : options_.eval_output);
    at::Tensor target = targets_of(head, trains);
    if (head.parts > 1) target = target.tensor_split(head.parts)[head.part];
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

  // The parts of a batch come one after the other: its targets are looked up once.
  at::Tensor targets_of(const wire::PassHead& head, bool trains) {
    if (last_.defined() && last_batch_ == head.batch) return last_;
    const std::string where = text("batch ", head.index, " of epoch ", head.epoch);
    const auto& source = trains ? options_.training : options_.validation;
    if (!source) {
      throw std::runtime_error(text("the leaf ", options_.node, " has no ", trains ? "[data]" : "[validation]",
                                    " in its train.toml, but ", options_.root, " sent ", where,
                                    ": start all nodes with the same file"));
    }
    const auto rows = source->batches.rows(trains ? head.epoch : 0, head.index);
    if (rows.empty()) {
      throw std::runtime_error(text("the labels of ", options_.node, " end after ", source->batches.per_epoch(),
                                    " batches, but ", options_.root, " sent ", where, ": both need the same data"));
    }
    const at::Tensor targets = data::rows_of(source->samples.targets, rows);
    const std::uint64_t own = label_digest(std::array{targets});
    if (head.digest != 0 && head.digest != own) {
      throw std::runtime_error(text("the labels of ", options_.node, " for ", where, " are not those of ",
                                    options_.root,
                                    ": both need the same data in the same order (the same files, rows, batch size, "
                                    "seed and shuffle)"));
    }
    last_batch_ = head.batch;
    last_ = targets;
    return targets;
  }

  const CriterionOptions options_;
  const Loss loss_;
  std::uint64_t last_batch_ = 0;
  at::Tensor last_;
};

}  // namespace

worker::Criterion make_criterion(CriterionOptions options) {
  // Shared, since std::function copies what it holds.
  return [judge = std::make_shared<LeafCriterion>(std::move(options))](
             const wire::PassHead& head, const std::vector<c10::IValue>& outputs) { return (*judge)(head, outputs); };
}

}  // namespace ravnest::train
