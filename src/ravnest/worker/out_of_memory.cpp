#include "ravnest/worker/out_of_memory.h"

#include <string>

#include "ravnest/base/printable.h"

namespace ravnest::worker {
namespace {

// "Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 12.38 GiB is free."
constexpr std::string_view kLastOfNumbers = " is free.";
constexpr std::string_view kOutOfMemory = "out of memory";
// Of the host it throws no type of its own: "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: ...".
constexpr std::string_view kOfTheHost = "DefaultCPUAllocator: ";

}  // namespace

bool is_out_of_memory(const c10::Error& error) {
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         error.msg().find(kOfTheHost) != std::string::npos;
}

Status out_of_memory(const c10::Error& error, std::string_view what_helps) {
  std::string words = error.msg();
  if (const std::size_t host = words.find(kOfTheHost); host != std::string::npos)
    words.erase(0, host + kOfTheHost.size());
  if (const std::size_t last = words.find(kLastOfNumbers); last != std::string::npos)
    words.resize(last + kLastOfNumbers.size());
  while (!words.empty() && (words.back() == '.' || words.back() == ' ')) words.pop_back();
  const bool says_so = words.find(kOutOfMemory) != std::string::npos;
  return internal(says_so ? "" : text(kOutOfMemory, ": "), in_one_sentence(words), ". What helps: ", what_helps);
}

Status torch_failure(const c10::Error& error, std::string_view what_helps_memory) {
  return is_out_of_memory(error) ? out_of_memory(error, what_helps_memory)
                                 : internal(in_one_sentence(error.what_without_backtrace()));
}

}  // namespace ravnest::worker
