// An object on its way down, in ranges, into a file that appears when it is whole.
#pragma once

#include <filesystem>

#include "ravnest/object_store/object_store.h"

namespace ravnest::object_store {

// `facts`: what the object is now; every range is asked for of that version alone.
Status download(Requests& requests, const StoreOptions& options, const ObjectName& from, const ObjectFacts& facts,
                const std::filesystem::path& to, const Progress& progress);

// Whether an answer is the bytes from `begin` to `end` (the one after the last) of an object of `size`.
Status check_range(const HttpAnswer& answer, std::uint64_t begin, std::uint64_t end, std::uint64_t size);

}  // namespace ravnest::object_store
