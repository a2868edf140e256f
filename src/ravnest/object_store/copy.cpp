#include "ravnest/object_store/copy.h"

#include <algorithm>
#include <system_error>

#include "ravnest/base/file.h"
#include "ravnest/base/printable.h"
#include "ravnest/object_store/download_note.h"

namespace ravnest::object_store {
namespace {

namespace fs = std::filesystem;

std::string url(const std::string& bucket, const std::string& key) { return text("s3://", bucket, "/", key); }

// "runs/7/" of "runs/7"; nothing of nothing.
std::string as_folder(std::string key) {
  if (!key.empty() && !key.ends_with('/')) key += '/';
  return key;
}

// What an object is called where it becomes a part of a folder.
std::string last_component(std::string_view key) { return std::string(key.substr(key.find_last_of('/') + 1)); }

bool is_unfinished(const fs::path& path) {
  return path.extension() == ".ravnest-part" || path.string().ends_with(".ravnest-part.note");
}

// A checkpoint is there once its manifest is: that goes when all of the rest has gone.
void put_manifests_last(std::vector<CopyItem>& items) {
  std::ranges::stable_sort(items, {},
                           [](const CopyItem& item) { return last_component(item.from) == "manifest.json"; });
}

Status listing_failure(const fs::path& path, const std::error_code& error) {
  return system_failure("list", path, error.value());
}

Result<CopyItem> file_item(const fs::path& from, const std::string& to) {
  const auto name = parse_s3_url(to);
  if (!name.ok()) return name.status();
  std::error_code error;
  const std::uint64_t size = fs::file_size(from, error);
  if (error) return system_failure("open", from, error.value());
  return CopyItem{from.string(), to, size};
}

Result<std::vector<CopyItem>> files_below(const fs::path& folder, const ObjectName& to) {
  std::vector<CopyItem> items;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_regular_file(ignored) || is_unfinished(entry->path())) continue;
    const std::string below = entry->path().lexically_relative(folder).generic_string();
    auto item = file_item(entry->path(), url(to.bucket, as_folder(to.key) + below));
    if (!item.ok()) return item.status();
    items.push_back(std::move(*item));
  }
  if (error) return listing_failure(folder, error);
  if (items.empty()) return not_found("there is no file in ", folder.string());
  std::ranges::sort(items, {}, &CopyItem::from);
  put_manifests_last(items);
  return items;
}

Result<std::vector<CopyItem>> from_files(const std::string& from, const ObjectName& to, bool recursive) {
  std::error_code error;
  if (fs::is_directory(from, error)) {
    if (!recursive && !from.ends_with('/')) return invalid(from, " is a folder; -r copies all that is in it");
    return files_below(fs::path(from), to);
  }
  const std::string key =
      to.key.empty() || to.key.ends_with('/') ? to.key + fs::path(from).filename().string() : to.key;
  auto item = file_item(from, url(to.bucket, key));
  if (!item.ok()) return item.status();
  return std::vector{std::move(*item)};
}

// Where an object goes that is called `name` at the other end.
Result<std::string> end_of(const std::string& to, std::string_view name) {
  if (is_s3_url(to)) {
    auto folder = parse_s3_url(to);
    if (!folder.ok()) return folder.status();
    return url(folder->bucket, as_folder(folder->key) + std::string(name));
  }
  const auto path = local_path(name);
  if (!path.ok()) return path.status();
  return (fs::path(to) / *path).string();
}

Result<std::vector<CopyItem>> objects_below(ObjectStore& store, const ObjectName& from, const std::string& to,
                                            const std::function<bool()>& go_on) {
  const ObjectName prefix{from.bucket, as_folder(from.key)};
  std::vector<CopyItem> items;
  Status failed;
  const Status listed = store.list(
      prefix, true,
      [&](const ListPage& page) {
        for (const ListedObject& object : page.objects) {
          // Consoles make an object of no bytes, "a/", to show a folder.
          if (object.key.ends_with('/') && object.size == 0) continue;
          if (!object.key.starts_with(prefix.key)) {
            failed = corrupt("the server lists ", printable(object.key), " among what begins with ", shown(prefix));
            return false;
          }
          auto end = end_of(to, std::string_view(object.key).substr(prefix.key.size()));
          if (!end.ok()) {
            failed = end.status();
            return false;
          }
          items.push_back({url(from.bucket, object.key), std::move(*end), object.size});
        }
        return true;
      },
      go_on);
  if (!failed.ok()) return failed;
  if (!listed.ok()) return listed;
  if (items.empty()) return not_found("there is no object below ", shown(prefix));
  put_manifests_last(items);
  return items;
}

Result<std::vector<CopyItem>> from_objects(ObjectStore& store, const ObjectName& from, const std::string& to,
                                           bool recursive, const std::function<bool()>& go_on) {
  if (recursive || from.key.empty() || from.key.ends_with('/')) return objects_below(store, from, to, go_on);
  const auto facts = store.head(from, go_on);
  if (!facts.ok()) return facts.status();
  std::error_code error;
  std::string end = to;
  if (is_s3_url(to)) {
    const auto name = parse_s3_url(to);
    if (!name.ok()) return name.status();
    if (name->key.empty() || name->key.ends_with('/')) end = url(name->bucket, name->key + last_component(from.key));
  } else if (to.ends_with('/') || fs::is_directory(to, error)) {
    auto within = end_of(to, last_component(from.key));
    if (!within.ok()) return within.status();
    end = std::move(*within);
  }
  return std::vector{CopyItem{url(from.bucket, from.key), end, facts->size}};
}

Status make_folder_of(const fs::path& path) {
  std::error_code error;
  fs::create_directories(folder_of(path), error);
  return error ? system_failure("make the folder", folder_of(path), error.value()) : Status();
}

Status object_to_object(ObjectStore& store, const ObjectName& from, const ObjectName& to, const fs::path& temporary,
                        const Progress& progress) {
  const fs::path between = temporary / ("ravnest-" + last_component(temporary_beside("copy").string()));
  const auto half = [&](std::uint64_t first) -> Progress {
    if (!progress) return {};
    return [&progress, first](std::uint64_t done, std::uint64_t all) {
      return progress((done + (first == 0 ? 0 : all)) / 2, all);
    };
  };
  Status copied = store.get_file(from, between, half(0));
  if (copied.ok()) copied = store.put_file(between, to, half(1));
  for (const fs::path& path : {between, part_path(between), note_path(between)}) {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
  return copied;
}

}  // namespace

Result<std::vector<CopyItem>> plan_copy(ObjectStore& store, const std::string& from, const std::string& to,
                                        bool recursive, const std::function<bool()>& go_on) {
  if (is_s3_url(from)) {
    const auto name = parse_s3_url(from);
    if (!name.ok()) return name.status();
    return from_objects(store, *name, to, recursive, go_on);
  }
  if (!is_s3_url(to))
    return invalid("neither ", printable(from), " nor ", printable(to), " begins with s3://; cp copies files");
  const auto name = parse_s3_url(to);
  if (!name.ok()) return name.status();
  return from_files(from, *name, recursive);
}

Status copy_item(ObjectStore& store, const CopyItem& item, const fs::path& temporary, const Progress& progress) {
  if (!is_s3_url(item.from)) {
    const auto to = parse_s3_url(item.to);
    return to.ok() ? store.put_file(item.from, *to, progress) : to.status();
  }
  const auto from = parse_s3_url(item.from);
  if (!from.ok()) return from.status();
  if (is_s3_url(item.to)) {
    const auto to = parse_s3_url(item.to);
    return to.ok() ? object_to_object(store, *from, *to, temporary, progress) : to.status();
  }
  if (Status made = make_folder_of(item.to); !made.ok()) return made;
  return store.get_file(*from, item.to, progress);
}

}  // namespace ravnest::object_store
