#include "ravnest/object_store/cache.h"

#include <system_error>

#include "ravnest/base/file.h"
#include "ravnest/identity/sha256.h"

namespace ravnest::object_store {
namespace {

namespace fs = std::filesystem;

// Enough of a digest to tell versions apart.
constexpr std::size_t kFolderDigits = 32;

}  // namespace

Result<fs::path> cache_folder(const Environment& environment) {
  if (const std::string own = variable(environment, "RAVNEST_CACHE"); !own.empty()) return fs::path(own);
  if (const std::string xdg = variable(environment, "XDG_CACHE_HOME"); !xdg.empty()) return fs::path(xdg) / "ravnest";
  if (const std::string home = variable(environment, "HOME"); !home.empty())
    return fs::path(home) / ".cache" / "ravnest";
  return not_found("there is no place to keep what is fetched: set RAVNEST_CACHE to a folder");
}

Result<fs::path> cached_file(ObjectStore& store, const ObjectName& name, const fs::path& cache,
                             const Progress& progress) {
  const auto facts = store.head(name, [&] { return !progress || progress(0, 0); });
  if (!facts.ok()) return facts.status();
  const auto file = local_path(name.key.substr(name.key.find_last_of('/') + 1));
  if (!file.ok()) return file.status();
  const auto version = identity::sha256(as_byte_span(text(store.settings().endpoint.url(), "\n", shown(name), "\n",
                                                          facts->etag, "\n", facts->sha256, "\n", facts->size)));
  if (!version.ok()) return version.status();
  const fs::path path = cache / "objects" / version->substr(0, kFolderDigits) / *file;
  std::error_code error;
  // It appeared whole, and after it was verified.
  if (fs::file_size(path, error) == facts->size && !error) return path;
  fs::create_directories(path.parent_path(), error);
  if (error) return system_failure("make the folder", path.parent_path(), error.value());
  const Status fetched = store.get_file(name, path, progress);
  if (!fetched.ok()) return fetched;
  return path;
}

}  // namespace ravnest::object_store
