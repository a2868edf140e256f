// Objects that are read as files: fetched once, into a folder of this machine.
#pragma once

#include <filesystem>

#include "ravnest/object_store/object_store.h"

namespace ravnest::object_store {

// Where fetched objects are kept: RAVNEST_CACHE, or `ravnest` in XDG_CACHE_HOME, or in ~/.cache. kNotFound where none
// of them is set.
Result<std::filesystem::path> cache_folder(const Environment& environment);

// The file with what the object is now: verified as get_file does, and fetched only where this version of it is not in
// the cache. It keeps its name, by which readers know its kind. Whoever wants room may remove the cache at any time.
Result<std::filesystem::path> cached_file(ObjectStore& store, const ObjectName& name,
                                          const std::filesystem::path& cache, const Progress& progress = {});

}  // namespace ravnest::object_store
