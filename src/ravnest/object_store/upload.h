// A file on its way up: in one request, or in parts that an earlier try may have sent.
#pragma once

#include <filesystem>

#include "ravnest/object_store/object_store.h"

namespace ravnest::object_store {

// How a file of that size is cut: parts of at least `part_bytes`, whole MiB each, so that there are 10,000 at most.
std::uint64_t part_bytes_for(std::uint64_t size, std::uint64_t part_bytes);

Status upload(Requests& requests, const StoreOptions& options, const std::filesystem::path& from, const ObjectName& to,
              const Progress& progress);

}  // namespace ravnest::object_store
