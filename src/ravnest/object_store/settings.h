// Where objects are, as the environment and the profile of AWS's tools say it.
//
// The environment comes in as a map: it is read in cli/ and python/ only.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "ravnest/base/status.h"
#include "ravnest/object_store/object_name.h"
#include "ravnest/object_store/profile_file.h"

namespace ravnest::object_store {

using Environment = std::map<std::string, std::string>;

// The variable's value; empty where it is not set, which is the same.
std::string variable(const Environment& environment, const std::string& name);

// "https://HOST:PORT/BASE", taken apart.
struct Endpoint {
  bool https = true;
  std::string host;  // with ":PORT" where that is not the scheme's own, as it stands in the header
  std::string base;  // "" or "/BASE", without a slash at its end

  std::string url() const { return (https ? "https://" : "http://") + host + base; }
};
// kInvalid for what is no http:// or https:// URL of a host, or has a user, a query or odd characters.
Result<Endpoint> parse_endpoint(std::string_view url, std::string_view what);

enum class Addressing : unsigned char {
  kAuto,     // virtual with AWS and a bucket whose name can be one of a host, else by path
  kPath,     // https://HOST/BUCKET/KEY
  kVirtual,  // https://BUCKET.HOST/KEY
};

struct Settings {
  std::string region = "us-east-1";
  std::string region_from = "nothing says otherwise";  // for messages: "AWS_REGION"
  Endpoint endpoint;
  std::string endpoint_from;  // "AWS_ENDPOINT_URL_S3"; empty: AWS's own of the region
  Addressing addressing = Addressing::kAuto;
  Profile profile;
  std::filesystem::path ca_bundle;
};

// AWS_PROFILE, AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE; AWS_REGION, AWS_DEFAULT_REGION; AWS_ENDPOINT_URL_S3,
// AWS_ENDPOINT_URL; AWS_CA_BUNDLE; RAVNEST_S3_ADDRESSING (path, virtual, auto); and the profile's own words for these.
Result<Settings> read_settings(const Environment& environment);

// Where a request about an object, or with an empty key about its bucket, goes.
struct Target {
  std::string host;
  std::string path;    // percent-encoded, as it is signed
  std::string origin;  // "https://HOST"
};
Target target_of(const Settings& settings, const ObjectName& name);

}  // namespace ravnest::object_store
