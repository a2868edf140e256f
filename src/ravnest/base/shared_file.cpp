#include "ravnest/base/shared_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

namespace ravnest {
namespace {

// Found again by its type, with std::get_deleter.
struct FileKeeper {
  std::shared_ptr<const MappedFile> file;
  void operator()(const void*) const {}
};

}  // namespace

std::shared_ptr<const void> share(MappedFile file) {
  auto own = std::make_shared<const MappedFile>(std::move(file));
  const void* data = own->bytes().data();
  return {data, FileKeeper{std::move(own)}};
}

void forget(const std::shared_ptr<const void>& owner, ByteSpan bytes) {
  if (std::get_deleter<FileKeeper>(owner) == nullptr) return;
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t begin = (first + page - 1) / page * page;
  const std::uintptr_t end = (first + bytes.size()) / page * page;
  // It is read-only and private: the file has all that the pages have. Where the kernel will not, they stay.
  if (begin < end) (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace ravnest
