// Whatever a server says: its XML, its headers, its metadata's JSON; and profiles that anybody has written.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "ravnest/object_store/answers.h"
#include "ravnest/object_store/credentials.h"
#include "ravnest/object_store/download_note.h"
#include "ravnest/object_store/object_name.h"
#include "ravnest/object_store/refusal.h"
#include "ravnest/object_store/verify.h"
#include "ravnest/object_store/xml.h"

namespace {

using namespace ravnest::object_store;

// What is said stays short and printable, whatever it is about.
void check(const ravnest::Status& status) {
  if (status.message().size() > 20'000) std::abort();
}

void xml(std::string_view text) {
  check(parse_xml(text).status());
  const auto list = decode_list(text);
  check(list.status());
  if (list.ok()) {
    for (const ListedObject& object : list->objects) {
      const auto path = local_path(object.key);
      if (path.ok() && (path->is_absolute() || path->lexically_normal().string().starts_with(".."))) std::abort();
    }
  }
  check(decode_parts(text).status());
  check(decode_uploads(text).status());
  check(decode_upload_id(text).status());
  check(decode_completed(text).status());
}

void headers(std::string_view text) {
  HttpAnswer answer{static_cast<int>(text.size() % 600), {}, std::string(text)};
  std::size_t at = 0;
  for (const char* name : {"content-length", "etag", "date", "x-amz-bucket-region", "content-range", "retry-after"}) {
    answer.headers.push_back({name, std::string(text.substr(std::min(at, text.size()), 12))});
    at += 12;
  }
  check(facts_of(answer).status());
  static const Settings settings = read_settings({}).value();
  check(refusal(answer, {"get s3://a/b", {"a", "b"}, {}}, settings, {{"id", "secret", ""}, "here", {}}));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 6) {
    case 0: xml(text); break;
    case 1: check(decode_metadata_credentials(text, "it").status()); break;
    case 2: check(ProfileFile::parse(text, "file").status()); break;
    case 3: headers(text); break;
    case 4: {
      const auto decoded = percent_decoded(text);
      if (decoded.ok() && percent_decoded(percent_encoded(*decoded, Slash::kEncoded)).value() != *decoded) std::abort();
      check(parse_s3_url(text).status());
      check(parse_endpoint(text, "it").status());
      break;
    }
    default: static_cast<void>(decode_note(text, {"s3://a/b", "o", "e", 100, 10}));
  }
  return 0;
}
