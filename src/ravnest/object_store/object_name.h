// What an object is called: `s3://BUCKET/KEY` as people write it, as requests have it, and as a file of this machine.
//
// A key is any bytes of UTF-8, and to S3 no more than that: `a/../b` and `b` are two objects. So nothing is taken apart
// or simplified on the way, and what would become a local file is looked at on its own. Pure functions.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "ravnest/base/status.h"

namespace ravnest::object_store {

struct ObjectName {
  std::string bucket;
  std::string key;  // may be empty, or end in '/', where all below it are meant

  friend bool operator==(const ObjectName&, const ObjectName&) = default;
};

// Whether that is the name of an object and not a path: it begins with "s3://".
bool is_s3_url(std::string_view written);

// kInvalid, with what is expected, where the bucket's name is none that S3 has, or the key is longer than 1024 bytes or
// no UTF-8. What stands in the key is taken as it is: "%20" is three characters.
Result<ObjectName> parse_s3_url(std::string_view written);

// "s3://BUCKET/KEY", safe to show.
std::string shown(const ObjectName& name);

// Every byte but letters, digits and "-._~" as %XX, as SigV4 wants it; in a path the slashes stay.
enum class Slash : bool { kEncoded, kKept };
std::string percent_encoded(std::string_view bytes, Slash slash);
// The opposite for what servers encode; a '+' is a space. kCorrupt for a '%' without two hexadecimal digits.
Result<std::string> percent_decoded(std::string_view written);

// The part of a key below a prefix as a path below a folder. kInvalid where it could lie elsewhere, or be taken for
// something else by who reads it: a component that is empty, "." or "..", a beginning '/', a backslash, or a control
// character.
Result<std::filesystem::path> local_path(std::string_view key);

}  // namespace ravnest::object_store
