// What S3 says in XML, as plain structs. Decoders of what a server sent: they trust nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"

namespace ravnest::object_store {

// Why a request was refused, in the server's words; all empty where it did not say.
struct ServerError {
  std::string code;     // "NoSuchBucket"
  std::string message;  // for people
  std::string region;   // where the bucket is, with errors about that
};
// Of whatever was the answer's body: a web page of some proxy gives an empty one.
ServerError decode_error(std::string_view body);
// Whether that is an <Error>: S3 may send one with status 200 when it began to answer before it knew.
bool is_error(std::string_view body);

struct ListedObject {
  std::string key;
  std::uint64_t size = 0;
  std::string etag;      // without its quotes
  std::string modified;  // "2026-11-19T14:08:52.000Z"
};
struct ListPage {
  std::vector<ListedObject> objects;
  std::vector<std::string> folders;  // prefixes up to the delimiter
  std::string next;                  // the token that the next page is asked for with; empty: this is the last
};
Result<ListPage> decode_list(std::string_view body);

struct ListedPart {
  int number = 0;
  std::uint64_t size = 0;
  std::string etag;
};
struct PartsPage {
  std::vector<ListedPart> parts;
  std::string next;  // part-number-marker
};
Result<PartsPage> decode_parts(std::string_view body);

struct ListedUpload {
  std::string key;
  std::string id;
};
struct UploadsPage {
  std::vector<ListedUpload> uploads;
  std::string next_key;  // key-marker and upload-id-marker
  std::string next_id;
};
Result<UploadsPage> decode_uploads(std::string_view body);

// The id of an upload that was begun.
Result<std::string> decode_upload_id(std::string_view body);
// The ETag of an upload that was completed.
Result<std::string> decode_completed(std::string_view body);

// An ETag without its quotes and without a leading W/.
std::string bare_etag(std::string_view etag);
// Digits alone, without overflow.
Result<std::uint64_t> decode_count(std::string_view digits);

}  // namespace ravnest::object_store
