#include "ravnest/strategy/communicate/nccl_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <string_view>

#include "ravnest/base/printable.h"

namespace ravnest::strategy {
namespace {

constexpr const char* kNcclName = "libnccl.so.2";
// Since then communicators that do not block can be finalized and aborted in every state.
constexpr int kOldestNccl = 21800;
constexpr int kNextMajor = 30000;

Result<void*> open_library(const std::filesystem::path& path) {
  if (path.empty()) {
    if (void* loaded = ::dlopen(kNcclName, RTLD_NOW | RTLD_NOLOAD); loaded != nullptr) return loaded;
  }
  const std::string name = path.empty() ? kNcclName : path.string();
  if (void* loaded = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL); loaded != nullptr) return loaded;
  return not_found("NCCL cannot be loaded: ", ::dlerror());
}

template <class Function>
void find(void* library, const char* name, Function*& function, std::string& missing) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  if (function == nullptr && missing.empty()) missing = name;
}

std::string version_words(int version) { return text(version / 10000, ".", version / 100 % 100, ".", version % 100); }

}  // namespace

Result<NcclLibrary> load_nccl(const std::filesystem::path& path) {
  const Result<void*> opened = open_library(path);
  if (!opened.ok()) return opened.status();
  NcclLibrary library;
  std::string missing;
  find(*opened, "ncclGetVersion", library.get_version, missing);
  find(*opened, "ncclGetUniqueId", library.get_unique_id, missing);
  find(*opened, "ncclCommInitRankConfig", library.comm_init_rank_config, missing);
  find(*opened, "ncclCommFinalize", library.comm_finalize, missing);
  find(*opened, "ncclCommDestroy", library.comm_destroy, missing);
  find(*opened, "ncclCommAbort", library.comm_abort, missing);
  find(*opened, "ncclCommGetAsyncError", library.comm_get_async_error, missing);
  find(*opened, "ncclGetErrorString", library.get_error_string, missing);
  find(*opened, "ncclGetLastError", library.get_last_error, missing);
  find(*opened, "ncclAllReduce", library.all_reduce, missing);
  find(*opened, "ncclReduceScatter", library.reduce_scatter, missing);
  find(*opened, "ncclAllGather", library.all_gather, missing);
  find(*opened, "ncclBroadcast", library.broadcast, missing);
  const std::string name = path.empty() ? kNcclName : path.string();
  if (!missing.empty()) return unsupported(name, " has no ", missing, ": it is no NCCL, or one that is too old");
  int version = 0;
  if (library.get_version(&version) != nccl::kSuccess) return unsupported(name, " does not tell its version");
  if (version < kOldestNccl || version >= kNextMajor) {
    // Up to 2.8 the number had one digit less.
    const std::string found = version < 10000 ? "older than 2.9" : version_words(version);
    return unsupported(name, " is NCCL ", found, "; ravnest uses 2.18 and what comes after it, before 3");
  }
  library.version = version_words(version);
  return library;
}

Status nccl_available() { return load_nccl().status(); }

std::string nccl_reason(const NcclLibrary& library, nccl::Outcome outcome, nccl::Comm* comm) {
  const char* known = library.get_error_string(outcome);
  const char* said = library.get_last_error(comm);
  const std::string what = known == nullptr ? text("error ", static_cast<int>(outcome)) : printable(known);
  std::string last = printable_reason(said == nullptr ? "" : said);
  std::ranges::replace(last, '\n', ' ');
  while (!last.empty() && last.back() == ' ') last.pop_back();
  return last.empty() ? what : text(what, " (", last, ")");
}

}  // namespace ravnest::strategy
