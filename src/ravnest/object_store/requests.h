// Requests to S3: signed, sent, and sent again where that may help.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ravnest/base/clock.h"
#include "ravnest/object_store/credentials.h"
#include "ravnest/object_store/http.h"
#include "ravnest/object_store/refusal.h"
#include "ravnest/object_store/settings.h"

namespace ravnest::object_store {

struct S3Request {
  std::string action;  // "put s3://BUCKET/KEY": what the user hears of where it fails
  std::string method;
  ObjectName name;                    // an empty key: the bucket
  std::vector<QueryItem> query = {};  // as it is, not encoded
  std::vector<Header> headers = {};
  ByteSpan body = {};
  std::string body_md5 = {};  // 16 bytes; sent to servers that ask for it, as AWS does of buckets with locked objects
  std::string body_sha256 = std::string(kEmptySha256);
  std::function<bool(ByteSpan)> take = {};
  std::function<bool(std::uint64_t sent)> go_on = {};
  bool is_slow = false;  // the server may need minutes before it says anything
};

struct RequestOptions {
  int attempts = 8;        // in a row without a byte that one wants
  int first_attempts = 4;  // the same, as long as the server has never answered: its name may be wrong
  Duration stall = std::chrono::seconds(30);
};

// What has to come from outside: time, chance and a pause that ends early, with false, where `go_on` says so.
struct Surroundings {
  std::function<WallTime()> wall;
  std::function<double()> random;  // [0, 1); any thread
  std::function<bool(Duration pause, const std::function<bool()>& go_on)> sleep;
};
Surroundings machine_surroundings();

class Requests {
 public:
  Requests(Settings settings, Environment environment, std::unique_ptr<HttpClient> http, RequestOptions options,
           Surroundings surroundings);

  // The answer where it is a success (2xx). kUnavailable and kDeadline mean that all attempts have failed. Any thread.
  Result<HttpAnswer> send(const S3Request& request);
  // The same, with a request for each attempt: for a download, which goes on where it was. One that took bytes counts
  // as the first again.
  Result<HttpAnswer> send(const std::function<S3Request()>& next);

  const Settings& settings() const { return settings_; }

 private:
  struct Outcome {
    Result<HttpAnswer> answer;
    bool again = false;
    Duration pause = Duration::zero();
    bool took_bytes = false;
  };
  Outcome attempt(const S3Request& request);
  Outcome refused(const HttpAnswer& answer, const S3Request& request, const FoundCredentials& keys, WallTime at);
  Result<HttpRequest> signed_request(const S3Request& request, const Credentials& keys, WallTime at) const;

  const Settings settings_;
  const std::unique_ptr<HttpClient> http_;
  const RequestOptions options_;
  const Surroundings surroundings_;
  CredentialSource credentials_;
  std::atomic<bool> has_answered_ = false;
  std::atomic<bool> wants_md5_ = false;  // the signed SHA-256 says the same, and costs servers one digest less
};

}  // namespace ravnest::object_store
