#include "ravnest/checkpoint/export.h"

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ravnest/archive/pickle/state_dict.h"
#include "ravnest/archive/weights/safetensors.h"
#include "ravnest/base/file.h"
#include "ravnest/base/words/few.h"
#include "ravnest/checkpoint/tied_names.h"

namespace ravnest::checkpoint {
namespace {

using archive::PickleWriter;

struct WriteOption {
  PickleWriter& pickle;

  void operator()(bool value) const { pickle.boolean(value); }
  void operator()(std::int64_t value) const { pickle.integer(value); }
  void operator()(double value) const { pickle.number(value); }
  void operator()(const std::string& value) const { pickle.string(value); }
  // torch has tuples there, such as betas.
  void operator()(const std::vector<double>& values) const {
    pickle.begin_tuple();
    for (const double value : values) pickle.number(value);
    pickle.end_tuple();
  }
};

void write_options(PickleWriter& pickle, const optim::Options& options) {
  for (const auto& [name, value] : options) {
    pickle.string(name);
    std::visit(WriteOption{pickle}, value);
  }
}

// Parameters that no group has, by their tensors' first names in the model's order, but for those that are trained.
std::vector<std::string> frozen_parameters(const Whole& whole) {
  const Untied untied = without_aliases(whole.weights);
  std::vector<std::string> frozen;
  for (const auto& [name, payload] : untied.tensors) {
    if (payload.is_parameter && !payload.requires_grad) frozen.push_back(name);
  }
  return frozen;
}

// The groups with the frozen parameters in the places that they have in the model.
Result<std::vector<OptimizerGroup>> groups_with(const std::vector<std::string>& frozen, const Whole& whole) {
  std::vector<OptimizerGroup> groups = whole.optimizer.groups;
  if (frozen.empty()) return groups;
  if (groups.size() != 1)
    return invalid(
        "the model has frozen parameters (", few(frozen), "), and the optimizer ", groups.size(),
        " groups: nobody knows which group they are in; export without the frozen ones, and give the optimizer "
        "only what it trains");
  std::map<std::string_view, bool> wanted;
  for (const std::string& name : frozen) wanted.emplace(name, true);
  for (const std::string& name : groups[0].parameters) wanted.emplace(name, true);
  std::vector<std::string> in_order;
  for (const std::string& key : whole.order) {
    if (wanted.contains(key)) in_order.push_back(key);
  }
  groups[0].parameters = std::move(in_order);
  return groups;
}

// What is in the file, in the order in which the pickle comes to it.
class OptimizerFile {
 public:
  OptimizerFile(const OptimizerPart& optimizer, const std::vector<OptimizerGroup>& groups)
      : optimizer_(optimizer), groups_(groups) {
    for (const OptimizerGroup& group : groups)
      for (const std::string& parameter : group.parameters) parameters_.push_back(parameter);
    for (const std::string& parameter : parameters_) {
      const auto found = optimizer.tensors.find(parameter);
      if (found == optimizer.tensors.end()) continue;
      for (const auto& [name, payload] : found->second) tensors_.emplace_back(text(parameter, '.', name), payload);
    }
  }

  const archive::NamedPayloads& tensors() const { return tensors_; }

  void write(PickleWriter& pickle, const std::function<void(std::size_t)>& tensor) const {
    pickle.begin_dict();
    pickle.string("state");
    write_state(pickle, tensor);
    pickle.string("param_groups");
    write_groups(pickle);
    pickle.end_dict();
  }

 private:
  void write_state(PickleWriter& pickle, const std::function<void(std::size_t)>& tensor) const {
    std::size_t next = 0;
    pickle.begin_dict();
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const auto tensors = optimizer_.tensors.find(parameters_[i]);
      const auto values = optimizer_.values.find(parameters_[i]);
      if (tensors == optimizer_.tensors.end() && values == optimizer_.values.end()) continue;
      pickle.integer(static_cast<std::int64_t>(i));
      pickle.begin_dict();
      if (values != optimizer_.values.end()) write_options(pickle, values->second);
      if (tensors != optimizer_.tensors.end()) {
        for (const auto& [name, payload] : tensors->second) {
          pickle.string(name);
          tensor(next++);
        }
      }
      pickle.end_dict();
    }
    pickle.end_dict();
  }

  void write_groups(PickleWriter& pickle) const {
    std::int64_t number = 0;
    pickle.begin_list();
    for (const OptimizerGroup& group : groups_) {
      pickle.begin_dict();
      write_options(pickle, group.options);
      pickle.string("params");
      pickle.begin_list();
      for (std::size_t i = 0; i < group.parameters.size(); ++i) pickle.integer(number++);
      pickle.end_list();
      pickle.end_dict();
    }
    pickle.end_list();
  }

  const OptimizerPart& optimizer_;
  const std::vector<OptimizerGroup>& groups_;
  std::vector<std::string> parameters_;
  archive::NamedPayloads tensors_;
};

}  // namespace

Status export_state_dict(const Whole& whole, const std::filesystem::path& path) {
  return archive::write_state_dict(path, whole.weights);
}

Status export_safetensors(const Whole& whole, const std::filesystem::path& path) {
  // Tools look for the format, which says that it came from torch.
  return archive::write_safetensors(path, {{{"format", "pt"}}, whole.weights});
}

Status export_optimizer(const Whole& whole, const std::filesystem::path& path, Frozen frozen) {
  if (whole.optimizer.name.empty()) return invalid("the checkpoint has no optimizer's state");
  const Result<std::vector<OptimizerGroup>> groups =
      groups_with(frozen == Frozen::kIncluded ? frozen_parameters(whole) : std::vector<std::string>(), whole);
  if (!groups.ok()) return groups.status();
  const OptimizerFile content(whole.optimizer, *groups);
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file.ok()) return file.status();
  Status disk;
  const Status status = archive::write_torch_file(
      content.tensors(), [&](PickleWriter& pickle, const auto& tensor) { content.write(pickle, tensor); },
      path.stem().string(), [&](ByteSpan bytes) { return disk = file->append(bytes); });
  if (!disk.ok()) return disk;
  if (!status.ok()) return status.with_context(text("cannot write ", path.string()));
  return file->commit();
}

}  // namespace ravnest::checkpoint
