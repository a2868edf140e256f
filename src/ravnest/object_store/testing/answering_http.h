// A server that is a function, and surroundings in which no time passes.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "ravnest/object_store/http.h"
#include "ravnest/object_store/requests.h"

namespace ravnest::object_store {

// One thread at a time.
class AnsweringHttp final : public HttpClient {
 public:
  using Answer = std::function<Result<HttpAnswer>(const HttpRequest&)>;
  explicit AnsweringHttp(Answer answer) : answer_(std::move(answer)) {}

  Result<HttpAnswer> send(const HttpRequest& request) override {
    requests.push_back(request);
    requests.back().take = {};
    requests.back().go_on = {};
    return answer_(request);
  }

  std::vector<HttpRequest> requests;  // all that were sent

 private:
  Answer answer_;
};

// The sun of 2015-08-30 12:36:00 UTC.
inline WallTime test_time() { return std::chrono::system_clock::from_time_t(1440938160); }

struct TestSurroundings {
  std::vector<Duration> pauses;
  WallTime now = test_time();

  Surroundings surroundings() {
    return {[this] { return now; }, [] { return 0.0; },
            [this](Duration pause, const std::function<bool()>& go_on) {
              pauses.push_back(pause);
              return !go_on || go_on();
            }};
  }
};

inline Environment test_environment() {
  return {{"AWS_ACCESS_KEY_ID", "AKIDTEST"},
          {"AWS_SECRET_ACCESS_KEY", "secret"},
          {"AWS_ENDPOINT_URL", "http://127.0.0.1:9"},
          {"AWS_EC2_METADATA_DISABLED", "true"}};
}

}  // namespace ravnest::object_store
