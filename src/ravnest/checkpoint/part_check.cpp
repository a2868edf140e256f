#include <algorithm>
#include <limits>
#include <set>
#include <string_view>

#include "ravnest/base/printable.h"
#include "ravnest/checkpoint/names.h"
#include "ravnest/checkpoint/part_format.h"

namespace ravnest::checkpoint {
namespace {

std::string in_quotes(std::string_view name) { return text('"', printable(name), '"'); }

Status check_facts(const Part& part) {
  if (!is_part_name(part.name))
    return invalid(in_quotes(part.name), " is no name for a part: letters, digits and underscores make one");
  if (part.updates > std::numeric_limits<std::int64_t>::max()) return invalid(part.updates, " updates cannot be");
  const std::set<std::string_view> keys(part.order.begin(), part.order.end());
  if (keys.size() != part.order.size()) return invalid("a key stands twice in the model's order");
  for (const auto& [name, payload] : part.weights) {
    if (!keys.contains(name)) return invalid("weight ", in_quotes(name), " is no key of the model's state dict");
  }
  return {};
}

Status check_once(const archive::NamedPayloads& tensors, std::string_view kind) {
  std::set<std::string_view> names;
  for (const auto& [name, payload] : tensors) {
    if (!names.insert(name).second) return invalid(kind, " ", in_quotes(name), " is there twice");
  }
  return {};
}

Status check_all_once(const Part& part) {
  Status status = check_once(part.weights, "weight");
  if (status.ok()) status = check_once(part.buffers, "buffer");
  for (const auto& [parameter, tensors] : part.optimizer.tensors) {
    if (status.ok()) status = check_once(tensors, text("the optimizer's tensor of ", in_quotes(parameter), ","));
  }
  for (const auto& [record, tensors] : part.record_tensors) {
    if (status.ok()) status = check_once(tensors, text("tensor of the record ", in_quotes(record), ","));
  }
  return status;
}

Status check_optimizer(const OptimizerPart& optimizer) {
  if (optimizer.name.empty() && (!optimizer.groups.empty() || !optimizer.tensors.empty() || !optimizer.values.empty()))
    return invalid("there is an optimizer's state, but the optimizer has no name");
  std::set<std::string_view> grouped;
  for (const OptimizerGroup& group : optimizer.groups) {
    for (const std::string& parameter : group.parameters) {
      if (!grouped.insert(parameter).second)
        return invalid("parameter ", in_quotes(parameter), " is in the optimizer's groups twice");
    }
  }
  return {};
}

Status check_piece(const std::string& name, const Piece& piece) {
  const std::string which = text("the piece of ", in_quotes(name));
  std::int64_t elements = 1;
  std::int64_t without_zeros = 1;
  for (const std::int64_t size : piece.shape) {
    if (size < 0 || __builtin_mul_overflow(without_zeros, std::max<std::int64_t>(size, 1), &without_zeros))
      return invalid(which, " is of a shape that cannot be");
    elements *= size;
  }
  const auto all = static_cast<std::uint64_t>(elements);
  if (piece.length > all || piece.offset > all - piece.length)
    return invalid(which, ", elements ", piece.offset, " and ", piece.length, " from there, is not within its ", all);
  return {};
}

Status check_pieces(const Part& part) {
  for (const auto& [name, piece] : part.pieces) {
    if (Status status = check_piece(name, piece); !status.ok()) return status;
  }
  for (const auto& [name, payload] : part.weights) {
    const auto piece = part.pieces.find(name);
    if (piece == part.pieces.end()) continue;
    if (payload.sizes != std::vector<std::int64_t>{static_cast<std::int64_t>(piece->second.length)})
      return invalid("weight ", in_quotes(name), " should be a piece of ", piece->second.length, " elements");
  }
  return {};
}

}  // namespace

Status check_part(const Part& part) {
  Status status = check_facts(part);
  if (status.ok()) status = check_all_once(part);
  if (status.ok()) status = check_optimizer(part.optimizer);
  if (status.ok()) status = check_pieces(part);
  return status;
}

}  // namespace ravnest::checkpoint
