#include "ravnest/checkpoint/bucket_folder.h"

#include <algorithm>
#include <utility>

#include "ravnest/base/printable.h"
#include "ravnest/checkpoint/names.h"

namespace ravnest::checkpoint {
namespace {

// Far more than a manifest with the names of millions of tensors has.
constexpr std::uint64_t kMostManifestBytes = std::uint64_t{256} << 20;

}  // namespace

BucketFolder::BucketFolder(std::unique_ptr<object_store::ObjectStore> store, object_store::ObjectName name, GoOn go_on)
    : store_(std::move(store)), name_(std::move(name)), go_on_(std::move(go_on)) {
  if (!name_.key.empty() && !name_.key.ends_with('/')) name_.key += '/';
}

std::string BucketFolder::shown() const {
  return object_store::shown({name_.bucket, name_.key.substr(0, name_.key.empty() ? 0 : name_.key.size() - 1)});
}

std::string BucketFolder::shown(std::uint64_t updates) const {
  return object_store::shown({name_.bucket, name_.key + folder_name(updates)});
}

object_store::ObjectName BucketFolder::object(std::uint64_t updates, std::string_view file) const {
  return {name_.bucket, text(name_.key, folder_name(updates), "/", file)};
}

Result<BucketFolder::Objects> BucketFolder::objects() {
  Objects found;
  const auto note = [&](const object_store::ListPage& page) {
    for (const object_store::ListedObject& each : page.objects) {
      if (!each.key.starts_with(name_.key)) continue;
      const std::string_view below = std::string_view(each.key).substr(name_.key.size());
      const std::size_t slash = below.find('/');
      if (slash == std::string_view::npos) continue;
      if (const auto updates = updates_of(below.substr(0, slash))) found[*updates].emplace(below.substr(slash + 1));
    }
    return true;
  };
  const Status listed = store_->list(name_, /*recursive=*/true, note, go_on_);
  if (!listed.ok()) return listed;
  return found;
}

Result<Listing> BucketFolder::list(const std::vector<Checkpoint>& known) {
  const Result<Objects> found = objects();
  if (!found.ok()) return found.status();
  Listing listing;
  for (const auto& [updates, files] : *found) {
    if (!files.contains(kManifestFile)) continue;
    const auto same = [number = updates](const Checkpoint& each) { return each.manifest.updates == number; };
    if (const auto before = std::ranges::find_if(known, same); before != known.end()) {
      listing.complete.push_back(*before);
      continue;
    }
    const object_store::ObjectName name = object(updates, kManifestFile);
    const Result<std::string> written = store_->get_bytes(name, kMostManifestBytes, go_on_);
    if (written.status().code() == Code::kNotFound) continue;  // removed meanwhile
    const bool is_damaged = written.status().code() == Code::kCorrupt;
    if (!written.ok() && !is_damaged) return written.status();
    Result<Manifest> manifest =
        is_damaged ? Result<Manifest>(written.status()) : decode_manifest(*written, object_store::shown(name));
    if (manifest.ok() && manifest->updates != updates)
      manifest = corrupt(object_store::shown(name), ": it is of update ", manifest->updates);
    if (manifest.ok())
      listing.complete.push_back({shown(updates), std::move(*manifest)});
    else
      listing.unreadable.push_back({shown(updates), manifest.status()});
  }
  // The newest first.
  std::ranges::reverse(listing.complete);
  std::ranges::reverse(listing.unreadable);
  return listing;
}

Status BucketFolder::check_writable() {
  return store_->check_put({name_.bucket, name_.key + "ravnest-asks-whether-it-may-write"}, go_on_);
}

Status BucketFolder::check_part(std::uint64_t updates, const PartEntry& part) {
  const object_store::ObjectName name = object(updates, part.file);
  const auto facts = store_->head(name, go_on_);
  if (facts.status().code() == Code::kNotFound)
    return not_found(object_store::shown(name), " is not there; ", printable(part.holder), " has written it");
  if (!facts.ok()) return facts.status();
  if (facts->size != part.bytes)
    return corrupt(object_store::shown(name), " is torn: it has ", facts->size, " bytes, and ", part.bytes,
                   " were written");
  if (!facts->sha256.empty() && facts->sha256 != part.sha256)
    return corrupt(object_store::shown(name), " is another file: its SHA-256 is ", facts->sha256, ", and ", part.sha256,
                   " was written");
  return {};
}

Status BucketFolder::get_part(std::uint64_t updates, const PartEntry& part, const std::filesystem::path& to,
                              const std::function<void(std::uint64_t done, std::uint64_t all)>& on_fetched) {
  return store_->get_file(object(updates, part.file), to, [&](std::uint64_t done, std::uint64_t all) {
    if (on_fetched && all > 0) on_fetched(done, all);
    return go_on_();
  });
}

Status BucketFolder::put_part(std::uint64_t updates, const std::filesystem::path& from) {
  return store_->put_file(from, object(updates, from.filename().string()),
                          [this](std::uint64_t /*done*/, std::uint64_t /*all*/) { return go_on_(); });
}

Status BucketFolder::put_manifest(const Manifest& manifest) {
  const std::string index = encode_index(manifest);
  Status put = store_->put_bytes(as_byte_span(index), object(manifest.updates, kIndexFile), go_on_);
  if (!put.ok()) return put;
  const std::string written = encode(manifest);
  return store_->put_bytes(as_byte_span(written), object(manifest.updates, kManifestFile), go_on_);
}

Status BucketFolder::remove(const Manifest& manifest) {
  if (Status gone = store_->remove(object(manifest.updates, kManifestFile)); !gone.ok()) return gone;
  Status first = store_->remove(object(manifest.updates, kIndexFile));
  for (const PartEntry& part : manifest.parts)
    first = first_failure(first, store_->remove(object(manifest.updates, part.file)));
  return first;
}

Status BucketFolder::remove_stale(std::uint64_t before) {
  const Result<Objects> found = objects();
  if (!found.ok()) return found.status();
  Status first;
  for (const auto& [updates, files] : *found) {
    if (updates >= before || files.contains(kManifestFile)) continue;
    for (const std::string& file : files) {
      if (file == kIndexFile || is_part_file(file)) first = first_failure(first, store_->remove(object(updates, file)));
    }
  }
  return first;
}

}  // namespace ravnest::checkpoint
