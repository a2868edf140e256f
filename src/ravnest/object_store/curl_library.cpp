#include "ravnest/object_store/curl_library.h"

#include <dlfcn.h>

#include <mutex>

namespace ravnest::object_store {
namespace {

template <class Function>
void find(void* library, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr && missing.empty()) missing = name;
}

}  // namespace

Result<CurlLibrary> load_curl(const std::string& name) {
  void* opened = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    return not_found("object storage needs libcurl, which cannot be loaded (", ::dlerror(),
                     "); on Debian and Ubuntu: apt-get install libcurl4");
  }
  CurlLibrary library;
  std::string missing;
  find(opened, "curl_global_init", library.global_init, missing);
  find(opened, "curl_easy_init", library.easy_init, missing);
  find(opened, "curl_easy_setopt", library.easy_setopt, missing);
  find(opened, "curl_easy_perform", library.easy_perform, missing);
  find(opened, "curl_easy_getinfo", library.easy_getinfo, missing);
  find(opened, "curl_easy_reset", library.easy_reset, missing);
  find(opened, "curl_easy_cleanup", library.easy_cleanup, missing);
  find(opened, "curl_easy_strerror", library.easy_strerror, missing);
  find(opened, "curl_slist_append", library.slist_append, missing);
  find(opened, "curl_slist_free_all", library.slist_free_all, missing);
  if (!missing.empty()) return unsupported(name, " has no ", missing, ": it is no libcurl");
  // Counted by the library, but before 7.84 not safe from several threads.
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  if (library.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return unavailable(name, " cannot be set up");
  return library;
}

}  // namespace ravnest::object_store
