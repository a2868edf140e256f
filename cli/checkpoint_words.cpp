#include "checkpoint_words.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "ravnest/base/printable.h"
#include "ravnest/base/words/few.h"
#include "ravnest/base/words/table.h"
#include "ravnest/base/words/units.h"

namespace ravnest::cli {
namespace {

using checkpoint::Checkpoint;

std::uint64_t bytes_of(const Checkpoint& each) {
  std::uint64_t bytes = 0;
  for (const checkpoint::PartEntry& part : each.manifest.parts) bytes += part.bytes;
  return bytes;
}

std::string size_of(std::uint64_t bytes) { return quantity(static_cast<double>(bytes), "B"); }

std::string accuracy_words(const Checkpoint& each) {
  if (!each.manifest.accuracy) return "";
  char shown[32];
  std::snprintf(shown, sizeof shown, "%.2f %%", *each.manifest.accuracy);
  return shown;
}

std::string counted(std::size_t count, std::string_view what) { return text(count, " ", what, count == 1 ? "" : "s"); }

std::string as_line(const nlohmann::ordered_json& document) {
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string listing_words(const checkpoint::Listing& listing, const std::filesystem::path& folder) {
  std::string words;
  if (listing.complete.empty()) words = text("there is no complete checkpoint in ", folder.string(), "\n");
  if (!listing.complete.empty()) {
    const Checkpoint* best = checkpoint::best_of(listing.complete);
    Table table({"update", "epoch", "batch", "accuracy", "size", "parts", "written", "folder"});
    for (const Checkpoint& each : listing.complete) {
      const checkpoint::Manifest& manifest = each.manifest;
      table.add({text(manifest.updates), text(manifest.position.epoch), text(manifest.position.index),
                 accuracy_words(each) + (&each == best ? " (best)" : ""), size_of(bytes_of(each)),
                 text(manifest.parts.size()), printable(manifest.written), each.folder.filename().string()});
    }
    words = table.text();
  }
  for (const checkpoint::Unreadable& each : listing.unreadable)
    words += text("cannot be read: ", each.why.message(), "\n");
  return words;
}

std::string listing_json(const checkpoint::Listing& listing) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Checkpoint& each : listing.complete) {
    nlohmann::ordered_json entry = {{"folder", each.folder.string()},
                                    {"updates", each.manifest.updates},
                                    {"run", each.manifest.run},
                                    {"written", each.manifest.written},
                                    {"strategy", each.manifest.strategy},
                                    {"epoch", each.manifest.position.epoch},
                                    {"index", each.manifest.position.index},
                                    {"bytes", bytes_of(each)},
                                    {"parts", each.manifest.parts.size()}};
    entry["val_accuracy"] = each.manifest.accuracy ? nlohmann::ordered_json(*each.manifest.accuracy) : nullptr;
    list.push_back(std::move(entry));
  }
  nlohmann::ordered_json unreadable = nlohmann::ordered_json::array();
  for (const checkpoint::Unreadable& each : listing.unreadable)
    unreadable.push_back({{"folder", each.folder.string()}, {"why", each.why.message()}});
  return as_line({{"checkpoints", std::move(list)}, {"unreadable", std::move(unreadable)}});
}

std::string checkpoint_words(const Checkpoint& each) {
  const checkpoint::Manifest& manifest = each.manifest;
  const checkpoint::DataPosition& at = manifest.position;
  std::string words = text(each.folder.string(), "\n");
  const auto fact = [&](std::string_view name, const std::string& value) {
    constexpr std::size_t kColumn = 12;
    words += text("  ", name, std::string(kColumn - std::min(name.size(), kColumn), ' '), printable(value), "\n");
  };
  fact("run", manifest.run);
  fact("written", manifest.written);
  fact("update", text(manifest.updates));
  fact("data", text("epoch ", at.epoch, ", ", at.index, at.index == 1 ? " batch" : " batches", " of it; ", at.trained,
                    " in all"));
  if (manifest.accuracy) fact("accuracy", accuracy_words(each));
  fact("strategy", text(manifest.strategy, manifest.world > 1 ? text(", ", manifest.world, " side by side") : ""));
  if (!manifest.plan.empty()) fact("plan", manifest.plan);
  fact("model", text(counted(manifest.order.size(), "tensor"), " in ", size_words(each, {})));
  words += "\nparts\n";
  Table parts({"  name", "copy", "size", "tensors", "written by"});
  for (const checkpoint::PartEntry& part : manifest.parts)
    parts.add({"  " + printable(part.name), text(part.copy), size_of(part.bytes), text(part.tensors.size()),
               printable(part.holder)});
  words += parts.text();
  if (!manifest.settings.empty()) words += "\nsettings\n";
  for (const auto& [name, value] : manifest.settings)
    words += text("  ", printable(name), " = ", printable(value), "\n");
  return words;
}

std::string checkpoint_json(const Checkpoint& each) {
  nlohmann::ordered_json document = {{"folder", each.folder.string()}};
  document["manifest"] = nlohmann::ordered_json::parse(checkpoint::encode(each.manifest));
  return as_line(document);
}

std::string size_words(const Checkpoint& each, const std::set<std::string>& parts) {
  std::uint64_t bytes = 0;
  std::size_t count = 0;
  for (const checkpoint::PartEntry& part : each.manifest.parts) {
    if (!parts.empty() && !parts.contains(part.name)) continue;
    bytes += part.bytes;
    ++count;
  }
  return text(counted(count, "part"), ", ", size_of(bytes));
}

Status check_part_names(const Checkpoint& each, const std::vector<std::string>& parts) {
  std::vector<std::string> there;
  for (const checkpoint::PartEntry& part : each.manifest.parts) there.push_back(printable(part.name));
  for (const std::string& name : parts) {
    if (std::ranges::find(there, name) == there.end())
      return not_found(each.folder.string(), " has no part ", printable(name), "; it has ", few(there));
  }
  return {};
}

}  // namespace ravnest::cli
