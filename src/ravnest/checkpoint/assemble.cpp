#include "ravnest/checkpoint/assemble.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>

#include "ravnest/base/printable.h"
#include "ravnest/base/words/few.h"
#include "ravnest/checkpoint/contributions.h"
#include "ravnest/checkpoint/groups.h"
#include "ravnest/checkpoint/same_tensors.h"
#include "ravnest/checkpoint/tied_names.h"

namespace ravnest::checkpoint {
namespace {

using archive::NamedPayloads;

Status check_one_value(const std::vector<Part>& parts, std::string_view what,
                       const std::function<std::string(const Part&)>& value) {
  for (const Part& part : parts) {
    if (value(part) != value(parts[0]))
      return invalid("the parts do not belong together: ", parts[0].name, " is of ", what, " ",
                     printable(value(parts[0])), ", ", part.name, " of ", what, " ", printable(value(part)));
  }
  return {};
}

Status check_together(const std::vector<Part>& parts) {
  Status status = check_one_value(parts, "run", [](const Part& part) { return part.run; });
  if (status.ok()) status = check_one_value(parts, "update", [](const Part& part) { return text(part.updates); });
  if (status.ok()) status = check_one_value(parts, "plan", [](const Part& part) { return part.plan; });
  if (status.ok()) status = check_one_value(parts, "copy", [](const Part& part) { return text(part.copy); });
  if (status.ok())
    status = check_one_value(parts, "a model of", [](const Part& part) { return text(part.order.size(), " keys"); });
  for (const Part& part : parts) {
    if (status.ok() && part.order != parts[0].order)
      status = invalid("the parts do not belong together: ", parts[0].name, " and ", part.name,
                       " have other keys of the model, or in another order");
  }
  return status;
}

// Those that have an optimizer have the same one.
Status check_optimizers(const std::vector<Part>& parts) {
  const Part* first = nullptr;
  for (const Part& part : parts) {
    if (part.optimizer.name.empty()) continue;
    if (first != nullptr && part.optimizer.name != first->optimizer.name)
      return invalid("the parts do not belong together: ", first->name, " was trained by ",
                     printable(first->optimizer.name), ", ", part.name, " by ", printable(part.optimizer.name));
    if (first == nullptr) first = &part;
  }
  return {};
}

// The piece that a tensor of the part is, whichever of its names that is said of.
const Piece* piece_of(const Part& part, const std::string& name, const SameTensors& same) {
  if (part.pieces.empty()) return nullptr;
  if (const auto found = part.pieces.find(name); found != part.pieces.end()) return &found->second;
  for (const auto& [other, piece] : part.pieces) {
    if (same.first_name(other) == same.first_name(name)) return &piece;
  }
  return nullptr;
}

// All that the parts have under a name, or another one of the same tensor.
using Gathered = std::map<std::string, std::vector<Contribution>>;

Result<NamedPayloads> joined_weights(const std::vector<Part>& parts, const SameTensors& same) {
  Gathered by_first_name;
  for (const Part& part : parts) {
    for (const auto& [name, payload] : part.weights)
      by_first_name[same.first_name(name)].push_back({&payload, &part.name, piece_of(part, name, same)});
  }
  std::map<std::string, archive::Payload> joined;
  for (const auto& [name, contributions] : by_first_name) {
    Result<archive::Payload> payload = join(contributions, text("weight \"", printable(name), "\""));
    if (!payload.ok()) return payload.status();
    joined.emplace(name, std::move(*payload));
  }
  NamedPayloads weights;
  std::vector<std::string> missing;
  for (const std::string& key : parts[0].order) {
    const auto found = joined.find(same.first_name(key));
    if (found == joined.end())
      missing.push_back(printable(key));
    else
      weights.emplace_back(key, found->second);
  }
  if (!missing.empty())
    return not_found("no part of the checkpoint has ", few(missing), ", which the model's state dict has");
  return weights;
}

Result<NamedPayloads> joined_buffers(const std::vector<Part>& parts) {
  Gathered by_name;
  for (const Part& part : parts) {
    for (const auto& [name, payload] : part.buffers) by_name[name].push_back({&payload, &part.name, nullptr});
  }
  NamedPayloads buffers;
  for (const auto& [name, contributions] : by_name) {
    Result<archive::Payload> payload = join(contributions, text("buffer \"", printable(name), "\""));
    if (!payload.ok()) return payload.status();
    buffers.emplace_back(name, std::move(*payload));
  }
  return buffers;
}

Status join_optimizer_tensors(const std::vector<Part>& parts, const SameTensors& same, OptimizerPart& whole) {
  std::map<std::string, Gathered> by_parameter;
  for (const Part& part : parts) {
    for (const auto& [parameter, tensors] : part.optimizer.tensors) {
      const Piece* piece = piece_of(part, parameter, same);
      for (const auto& [name, payload] : tensors) {
        const bool is_piece =
            piece != nullptr && payload.sizes == std::vector{static_cast<std::int64_t>(piece->length)};
        by_parameter[same.first_name(parameter)][name].push_back({&payload, &part.name, is_piece ? piece : nullptr});
      }
    }
  }
  for (const auto& [parameter, gathered] : by_parameter) {
    for (const auto& [name, contributions] : gathered) {
      Result<archive::Payload> payload =
          join(contributions, text("the optimizer's ", printable(name), " of \"", printable(parameter), "\""));
      if (!payload.ok()) return payload.status();
      whole.tensors[parameter].emplace_back(name, std::move(*payload));
    }
  }
  return {};
}

Status join_optimizer_values(const std::vector<Part>& parts, const SameTensors& same, OptimizerPart& whole) {
  std::map<std::string, const Part*> from;
  for (const Part& part : parts) {
    for (const auto& [parameter, values] : part.optimizer.values) {
      const std::string& name = same.first_name(parameter);
      const auto [there, is_new] = whole.values.emplace(name, values);
      if (!is_new && there->second != values)
        return corrupt("what the optimizer keeps for \"", printable(name), "\" is not the same in ",
                       from.at(name)->name, " and ", part.name);
      from.emplace(name, &part);
    }
  }
  return {};
}

}  // namespace

Result<Whole> assemble(const std::vector<Part>& parts) {
  if (parts.empty()) return invalid("there are no parts to put together");
  Status status = check_together(parts);
  if (status.ok()) status = check_optimizers(parts);
  if (!status.ok()) return status;
  Whole whole{.run = parts[0].run,
              .plan = parts[0].plan,
              .updates = parts[0].updates,
              .order = parts[0].order,
              .weights = {},
              .buffers = {},
              .optimizer = {},
              .records = {},
              .record_tensors = {}};
  const SameTensors same(parts);
  Result<NamedPayloads> weights = joined_weights(parts, same);
  if (!weights.ok()) return weights.status();
  whole.weights = std::move(*weights);
  Result<NamedPayloads> buffers = joined_buffers(parts);
  if (!buffers.ok()) return buffers.status();
  whole.buffers = std::move(*buffers);
  for (const Part& part : parts) {
    if (whole.optimizer.name.empty()) whole.optimizer.name = part.optimizer.name;
    if (!part.records.empty()) whole.records[part.name] = part.records;
    if (!part.record_tensors.empty()) whole.record_tensors[part.name] = part.record_tensors;
  }
  status = join_optimizer_tensors(parts, same, whole.optimizer);
  if (status.ok()) status = join_optimizer_values(parts, same, whole.optimizer);
  if (!status.ok()) return status;
  Result<std::vector<OptimizerGroup>> groups = merged_groups(parts, same);
  if (!groups.ok()) return groups.status();
  whole.optimizer.groups = std::move(*groups);
  return whole;
}

}  // namespace ravnest::checkpoint
