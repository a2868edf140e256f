// A refusing answer as a sentence: what was tried, what the server says, and what helps.
#pragma once

#include <string>

#include "ravnest/base/status.h"
#include "ravnest/object_store/credentials.h"
#include "ravnest/object_store/http.h"
#include "ravnest/object_store/settings.h"

namespace ravnest::object_store {

// What the refused request was.
struct Asked {
  std::string action;  // "put s3://BUCKET/KEY", for the middle of a sentence
  ObjectName name;
  WallTime at;  // by this machine's clock
};

// kNotFound: no such bucket, object or upload. kInvalid: keys, rights, region, clock. kCorrupt: an object that is not
// the one that was asked for any more (412), a digest that does not match. kUnavailable: the server failed.
// kUnsupported: it does not know the request.
Status refusal(const HttpAnswer& answer, const Asked& asked, const Settings& settings, const FoundCredentials& keys);

}  // namespace ravnest::object_store
