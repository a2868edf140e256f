#include "ravnest/graph/ir/weights.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ravnest/archive/array.h"
#include "ravnest/archive/elements.h"
#include "ravnest/archive/weights/weights.h"
#include "ravnest/base/printable.h"
#include "ravnest/base/words/few.h"

namespace ravnest::ir {
namespace {

using Named = std::map<std::string_view, const archive::Payload*>;

std::string kind_of(const archive::Payload& payload) {
  return text(dtype_name(payload.dtype), " ", archive::shown(payload.sizes));
}

// The names in the model of each of its tensors; the first is that of its first appearance.
std::vector<std::vector<std::size_t>> tensors_of(const archive::NamedPayloads& weights) {
  std::map<const archive::Storage*, std::vector<std::size_t>> on_storage;  // numbers of tensors
  std::vector<std::vector<std::size_t>> tensors;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    std::vector<std::size_t>& known = on_storage[weights[i].second.storage.get()];
    const auto twin = std::find_if(known.begin(), known.end(), [&](std::size_t tensor) {
      return same_tensor(weights[tensors[tensor][0]].second, weights[i].second);
    });
    if (twin != known.end()) {
      tensors[*twin].push_back(i);
    } else {
      known.push_back(tensors.size());
      tensors.push_back({i});
    }
  }
  return tensors;
}

// The same elements on a storage of its own, a slice of the payload's: whatever else lies there is another tensor's.
archive::Payload apart(archive::Payload payload) {
  std::int64_t last = payload.storage_offset;
  for (std::size_t i = 0; i < payload.sizes.size(); ++i) last += (payload.sizes[i] - 1) * payload.strides[i];
  const auto item = static_cast<std::int64_t>(item_size(payload.dtype));
  const bool empty = element_count(payload) == 0;
  const ByteSpan bytes = payload.storage->bytes.subspan(empty ? 0 : payload.storage_offset * item,
                                                        empty ? 0 : (last + 1 - payload.storage_offset) * item);
  payload.storage = std::make_shared<const archive::Storage>(archive::Storage{payload.storage->owner, bytes});
  payload.storage_offset = 0;
  return payload;
}

bool same_values(const archive::Payload& a, const archive::Payload& b) {
  if (same_tensor(a, b)) return true;
  std::vector<std::byte> elements;
  elements.reserve(archive::byte_count(a));
  const auto keep = [&](ByteSpan bytes) {
    elements.insert(elements.end(), bytes.begin(), bytes.end());
    return Status();
  };
  std::size_t position = 0;
  const auto compare = [&](ByteSpan bytes) {
    const auto begin = elements.begin() + static_cast<std::ptrdiff_t>(position);
    position += bytes.size();
    return std::equal(bytes.begin(), bytes.end(), begin) ? Status() : invalid("differs");
  };
  return feed_elements(a, keep).ok() && feed_elements(b, compare).ok();
}

// Where all names are the model's but for one beginning, as DistributedDataParallel's "module.", that beginning.
std::string beginning_before(const Named& given, const Named& wanted) {
  if (given.empty() || given.size() != wanted.size()) return "";
  for (const auto& [name, own] : wanted) {
    const std::string_view first = given.begin()->first;
    if (!first.ends_with(name)) continue;
    const std::string beginning(first.substr(0, first.size() - name.size()));
    const bool all = std::all_of(wanted.begin(), wanted.end(),
                                 [&](const auto& each) { return given.contains(beginning + std::string(each.first)); });
    if (!beginning.empty() && all) return beginning;
  }
  return "";
}

// In what the file and the model differ: names, and what is said of them.
struct Differences {
  std::vector<std::string> missing;
  std::vector<std::string> unknown;
  std::vector<std::string> other_kinds;
  std::vector<std::string> untied;
};

// What the file has for a tensor of the model, which has these names there; null where nothing fits.
const archive::Payload* value_for(const std::vector<std::string_view>& names, const archive::Payload& own,
                                  const Named& given, Differences& differences) {
  const archive::Payload* value = nullptr;
  std::string_view from;
  bool there = false;
  for (const std::string_view name : names) {
    const auto found = given.find(name);
    if (found == given.end()) continue;
    const archive::Payload& payload = *found->second;
    there = true;
    if (payload.dtype != own.dtype || payload.sizes != own.sizes) {
      differences.other_kinds.push_back(
          text(printable(name), " (", kind_of(payload), " in place of ", kind_of(own), ")"));
    } else if (value == nullptr) {
      value = &payload;
      from = name;
    } else if (!same_values(*value, payload)) {
      differences.untied.push_back(text(printable(from), " and ", printable(name)));
    }
  }
  if (!there) differences.missing.push_back(printable(names[0]));
  return value;
}

// A part of a sentence: "; HEAD: a, b and 3 more".
std::string listing(std::string_view head, const std::vector<std::string>& names) {
  return names.empty() ? "" : text("; ", head, ": ", few(names));
}

Status agreement(const Differences& differences, const Named& given, const Named& wanted, std::string_view what) {
  const auto& [missing, unknown, other_kinds, untied] = differences;
  const std::string beginning = unknown.empty() ? "" : beginning_before(given, wanted);
  if (!beginning.empty())
    return invalid("the names in ", what, " all begin with \"", printable(beginning),
                   "\", which the model's do not; save the state dict of the model itself");
  if (!missing.empty() || !unknown.empty() || !other_kinds.empty())
    return invalid(what, " is not of this model", listing("it lacks", missing),
                   listing("the model does not know", unknown), listing("of other types or sizes", other_kinds));
  if (!untied.empty())
    return invalid("the model has one tensor under several names, but ", what, " has different values for ",
                   few(untied));
  return {};
}

Named by_name(const archive::NamedPayloads& payloads) {
  Named result;
  for (const auto& [name, payload] : payloads) result[name] = &payload;
  return result;
}

}  // namespace

Status replace_weights(Model& model, const archive::NamedPayloads& values, std::string_view what) {
  const Named given = by_name(values);
  const Named wanted = by_name(model.weights);
  archive::NamedPayloads replaced = model.weights;
  Differences differences;
  for (const std::vector<std::size_t>& tensor : tensors_of(model.weights)) {
    std::vector<std::string_view> names;
    for (const std::size_t i : tensor) names.push_back(model.weights[i].first);
    const auto* value = value_for(names, model.weights[tensor[0]].second, given, differences);
    if (value == nullptr) continue;
    archive::Payload one = apart(*value);
    for (const std::size_t i : tensor) {
      one.requires_grad = replaced[i].second.requires_grad;
      one.is_parameter = replaced[i].second.is_parameter;
      if (Status status = check(one); !status.ok()) return status.with_context(text(what, ": ", printable(names[0])));
      replaced[i].second = one;
    }
  }
  for (const auto& [name, payload] : given) {
    if (!wanted.contains(name)) differences.unknown.push_back(printable(name));
  }
  Status status = agreement(differences, given, wanted, what);
  if (status.ok()) model.weights = std::move(replaced);
  return status;
}

Status load_weights(Model& model, const std::filesystem::path& file, std::string_view entry) {
  const auto weights = archive::read_weights(file, entry);
  return weights.ok() ? replace_weights(model, *weights, file.string()) : weights.status();
}

}  // namespace ravnest::ir
