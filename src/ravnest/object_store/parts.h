// Uploads in parts: begun, found again, completed, given up. One request of S3 each.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ravnest/object_store/answers.h"
#include "ravnest/object_store/requests.h"

namespace ravnest::object_store {

struct PartUpload {
  ObjectName name;
  std::string id;
};

using GoOn = std::function<bool()>;

Result<PartUpload> begin_upload(Requests& requests, const ObjectName& name, const std::string& sha256,
                                const GoOn& go_on);
// Those of this very key that are begun and not completed; empty where the server does not tell, or none of ours to
// know.
Result<std::vector<PartUpload>> unfinished_uploads(Requests& requests, const ObjectName& name, const GoOn& go_on);
Result<std::vector<ListedPart>> parts_of(Requests& requests, const PartUpload& upload, const GoOn& go_on);
// The part's ETag. `progress` is told the bytes that were sent.
Result<std::string> send_part(Requests& requests, const PartUpload& upload, int number, ByteSpan bytes,
                              const std::function<bool(std::uint64_t sent)>& go_on);
// `etags` in the order of the parts, from number 1.
Status complete_upload(Requests& requests, const PartUpload& upload, const std::vector<std::string>& etags,
                       const GoOn& go_on);
// What cannot be given up stays at the server, without a word.
void abort_upload(Requests& requests, const PartUpload& upload);

}  // namespace ravnest::object_store
