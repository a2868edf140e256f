#include "ravnest/checkpoint/settings.h"

#include <charconv>
#include <string_view>

#include "ravnest/base/printable.h"

namespace ravnest::checkpoint {
namespace {

const std::string kBatchSize = "batch_size";
const std::string kBatchesPerEpoch = "batches_per_epoch";

using Settings = std::map<std::string, std::string>;

std::string value_of(const Settings& settings, const std::string& name) {
  const auto found = settings.find(name);
  return found == settings.end() ? std::string() : found->second;
}

// Whether the rest of an epoch would be other samples than those that are left.
bool changes_the_rest(const std::string& name, const Manifest& from, const Settings& now) {
  if (from.position.index == 0) return false;
  if (name == "seed" || name == "shuffle") return true;
  const bool are_shared_out = shares_data_out(from.settings) && shares_data_out(now);
  if (name == "shard") return !are_shared_out;
  if (name != kBatchSize && name != kBatchesPerEpoch) return false;
  if (name == kBatchesPerEpoch && are_shared_out && value_of(from.settings, "clusters") != value_of(now, "clusters"))
    return false;
  if (from.position.samples == 0) return true;
  // Batches of another size, or for another number of ranks, are another number of them; otherwise the data are others.
  if (from.settings.contains("ranks") != now.contains("ranks")) return false;
  if (now.contains("ranks") && now.at("ranks") != from.settings.at("ranks")) return false;
  const auto before = from.settings.find(kBatchSize);
  const auto size = now.find(kBatchSize);
  return name == kBatchesPerEpoch &&
         (before == from.settings.end() || size == now.end() || before->second == size->second);
}

// Whether gradients wait for their update in the checkpoint.
bool gradients_wait(const Manifest& from, const std::string& frequency) {
  std::uint64_t batches = 0;
  std::from_chars(frequency.data(), frequency.data() + frequency.size(), batches);
  return batches > 1 && from.position.trained % batches != 0;
}

}  // namespace

bool shares_data_out(const Settings& settings) {
  const std::string clusters = value_of(settings, "clusters");
  return settings.contains("ranks") || value_of(settings, "shard") == "true" || clusters.empty() || clusters == "1";
}

Result<std::vector<std::string>> changed_settings(const Manifest& from, const std::map<std::string, std::string>& now) {
  std::vector<std::string> changes;
  for (const auto& [name, before] : from.settings) {
    const auto own = now.find(name);
    if (own == now.end() || own->second == before) continue;
    const std::string both = text(printable(name), " was ", printable(before), " in the checkpoint of update ",
                                  from.updates, " and is ", printable(own->second), " here");
    if (changes_the_rest(name, from, now))
      return invalid(both, ", which may not change in the middle of an epoch (", from.position.index,
                     " batches of epoch ", from.position.epoch + 1,
                     " are trained on): set it as it was, or go on from a checkpoint with 0 batches of its epoch");
    if (name == "update_frequency" && gradients_wait(from, before))
      return invalid(both,
                     ", which may not change while gradients wait for their update: set it as it was, or go on "
                     "from another checkpoint");
    changes.push_back(text(printable(name), " from ", printable(before), " to ", printable(own->second)));
  }
  return changes;
}

}  // namespace ravnest::checkpoint
