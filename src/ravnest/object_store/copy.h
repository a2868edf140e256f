// What `ravnest cp A B` copies: which files and objects go where, and each of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ravnest/object_store/object_store.h"

namespace ravnest::object_store {

// One file or object; each end is a path or "s3://BUCKET/KEY".
struct CopyItem {
  std::string from;
  std::string to;
  std::uint64_t size = 0;
};

// Everything below a folder or a key with `recursive`, or where `from` ends in '/'; else one. An end that is a folder,
// or a key that ends in '/', takes the name of what is copied. What is called manifest.json comes last, so that a
// checkpoint appears when all of it is there. Looks, and changes nothing. kInvalid where a key could
// lie outside of the folder as a file, or neither end is an object; kNotFound where there is nothing.
Result<std::vector<CopyItem>> plan_copy(ObjectStore& store, const std::string& from, const std::string& to,
                                        bool recursive, const std::function<bool()>& go_on = {});

// Makes the folders that the file needs. From object to object it goes through a file in `temporary`.
Status copy_item(ObjectStore& store, const CopyItem& item, const std::filesystem::path& temporary,
                 const Progress& progress);

}  // namespace ravnest::object_store
