// Files and bytes as objects of S3, or of a server that speaks its language.
//
// What is put is there whole or not at all, and what is fetched appears under its name whole or not at all. Each object
// that is put carries its SHA-256 (x-amz-meta-ravnest-sha256), by which it is verified at both ends; objects of others
// are verified by size and, where it is an MD5, ETag. Large ones go in parts, several at a time, each tried again where
// that may help, and what an earlier call did not finish is taken up: an upload by what the server has of it, a
// download by the file NAME.ravnest-part and the note beside it.
//
// Any thread may call, and several at once, but for two transfers of one object or file. Every call ends: what hangs is
// given up after StoreOptions::requests.stall, tried again so often, and fails; `progress` and `go_on` end it earlier.
// Codes: kNotFound (no library, keys, bucket or object), kInvalid (rights, region, names, certificates), kCorrupt (not
// what it should be; changed meanwhile), kUnavailable and kDeadline (the network, the server, the disk: the same call
// goes on where this one ended), kCancelled.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "ravnest/base/bytes.h"
#include "ravnest/object_store/answers.h"
#include "ravnest/object_store/crew.h"
#include "ravnest/object_store/object_name.h"
#include "ravnest/object_store/requests.h"

namespace ravnest::object_store {

struct StoreOptions {
  std::uint64_t multipart_from = std::uint64_t{16} << 20;  // smaller files are one request
  std::uint64_t part_bytes = std::uint64_t{8} << 20;       // more where a file had over 10,000 parts
  int parallel = 4;
  RequestOptions requests = {};
};

struct ObjectFacts {
  std::uint64_t size = 0;
  std::string etag;
  std::string sha256;        // as we noted it when we put it; empty for those of others
  std::string modified;      // "Thu, 19 Nov 2026 14:08:52 GMT"
  bool etag_is_md5 = false;  // it looks like one, and the server does not say that the object is encrypted
};

inline constexpr std::string_view kSha256Header = "x-amz-meta-ravnest-sha256";

class ObjectStore {
 public:
  // Reads profiles and loads libcurl; asks nobody yet. `environment` is the process's own, read by who has it.
  static Result<std::unique_ptr<ObjectStore>> open(const Environment& environment, const StoreOptions& options = {});
  // For tests, with surroundings of theirs.
  ObjectStore(std::unique_ptr<Requests> requests, const StoreOptions& options)
      : requests_(std::move(requests)), options_(options) {}

  // A file that is there already, with the same digest, is not sent again.
  Status put_file(const std::filesystem::path& from, const ObjectName& to, const Progress& progress = {});
  Status put_bytes(ByteSpan bytes, const ObjectName& to, const std::function<bool()>& go_on = {});
  // Nor is one fetched that is there already. The folder must exist.
  Status get_file(const ObjectName& from, const std::filesystem::path& to, const Progress& progress = {});
  // kInvalid for an object of more than `most_bytes`.
  Result<std::string> get_bytes(const ObjectName& from, std::uint64_t most_bytes,
                                const std::function<bool()>& go_on = {});
  Result<ObjectFacts> head(const ObjectName& name, const std::function<bool()>& go_on = {});

  // All objects whose keys begin with the key of `prefix`, in their order; with `recursive` off, those below a further
  // slash as one folder. `each` is told page by page; false ends it, with kCancelled.
  Status list(const ObjectName& prefix, bool recursive, const std::function<bool(const ListPage&)>& each,
              const std::function<bool()>& go_on = {});
  // One that is not there is no failure.
  Status remove(const ObjectName& name);
  // Whether an object of that name may be put: an upload is begun and taken back, and nothing is there afterwards.
  Status check_put(const ObjectName& name, const std::function<bool()>& go_on = {});

  const Settings& settings() const { return requests_->settings(); }

 private:
  const std::unique_ptr<Requests> requests_;
  const StoreOptions options_;
};

}  // namespace ravnest::object_store
