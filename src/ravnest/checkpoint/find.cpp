#include <charconv>
#include <optional>

#include "ravnest/base/printable.h"
#include "ravnest/base/words/few.h"
#include "ravnest/checkpoint/folder.h"
#include "ravnest/checkpoint/names.h"

namespace ravnest::checkpoint {
namespace {

namespace fs = std::filesystem;

std::optional<std::uint64_t> update_number(std::string_view which) {
  if (const auto named = updates_of(which)) return named;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(which.data(), which.data() + which.size(), number);
  return error == std::errc() && end == which.data() + which.size() ? std::optional(number) : std::nullopt;
}

std::string what_is_there(const Listing& listing) {
  if (listing.complete.empty() && listing.unreadable.empty()) return "there is none";
  std::vector<std::string> shown;
  for (const Checkpoint& each : listing.complete) shown.push_back(std::to_string(each.manifest.updates));
  std::string words =
      shown.empty() ? ""
                    : text(shown.size() == 1 ? "there is that of update " : "there are those of updates ", few(shown));
  for (const Unreadable& each : listing.unreadable) words += text(words.empty() ? "" : "; ", each.why.message());
  return words;
}

Result<Checkpoint> newest_in(const Listing& listing, const std::string& root) {
  if (listing.complete.empty()) return not_found("no checkpoint in ", root, ": ", what_is_there(listing));
  return listing.complete.front();
}

Result<Checkpoint> best_in(const Listing& listing, const std::string& root) {
  const Checkpoint* best = best_of(listing.complete);
  if (best == nullptr)
    return not_found("no checkpoint in ", root, " knows how good its weights are (", what_is_there(listing),
                     "); take the newest, or validate while training");
  return *best;
}

Result<Checkpoint> of_update(const Listing& listing, const std::string& root, std::uint64_t updates) {
  for (const Checkpoint& each : listing.complete) {
    if (each.manifest.updates == updates) return each;
  }
  for (const Unreadable& each : listing.unreadable) {
    if (updates_of(each.folder.filename().string()) == updates) return each.why;
  }
  return not_found("no checkpoint of update ", updates, " in ", root, ": ", what_is_there(listing));
}

bool is_newest(std::string_view which) { return which.empty() || which == "newest" || which == "last"; }

Result<Checkpoint> at_path(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored))
    return not_found("there is no checkpoint ", printable(path.string()),
                     ": name an update, a checkpoint's folder, \"newest\" or \"best\"");
  Result<Manifest> manifest = read_manifest(path);
  if (manifest.ok()) return Checkpoint{path, std::move(*manifest)};
  if (manifest.status().code() != Code::kNotFound) return manifest.status();
  if (updates_of(path.filename().string()))
    return not_found(path.string(), " has no ", kManifestFile,
                     ": the checkpoint was never finished, or is being removed; take another one");
  const Result<Listing> listing = list_checkpoints(path);
  return listing.ok() ? newest_in(*listing, path.string()) : listing.status();
}

}  // namespace

std::optional<Result<Checkpoint>> find_listed(const Listing& listing, const std::string& root, std::string_view which) {
  if (is_newest(which)) return newest_in(listing, root);
  if (which == "best") return best_in(listing, root);
  if (const auto updates = update_number(which)) return of_update(listing, root, *updates);
  return std::nullopt;
}

std::string resume_word(const std::string& said) {
  if (said == "1" || said == "true") return "newest";
  if (said == "0" || said == "false") return "";
  return said;
}

Result<Checkpoint> find_checkpoint(const fs::path& root, std::string_view which) {
  if (!is_newest(which) && which != "best" && !update_number(which)) return at_path(fs::path(which));
  const Result<Listing> listing = list_checkpoints(root);
  if (!listing.ok()) return listing.status();
  return *find_listed(*listing, root.string(), which);
}

}  // namespace ravnest::checkpoint
