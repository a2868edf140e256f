#include "ravnest/object_store/requests.h"

#include <algorithm>
#include <mutex>
#include <random>
#include <thread>

#include "ravnest/identity/digest.h"
#include "ravnest/object_store/answers.h"
#include "ravnest/object_store/retry.h"

namespace ravnest::object_store {
namespace {

constexpr int kSlowFactor = 20;

// In steps, so that whoever wants to end need not wait for a pause of many seconds.
bool sleep_in_steps(Duration pause, const std::function<bool()>& go_on) {
  constexpr Duration kStep = std::chrono::milliseconds(100);
  const TimePoint end = SystemClock().now() + pause;
  for (;;) {
    if (go_on && !go_on()) return false;
    const Duration left = end - SystemClock().now();
    if (left <= Duration::zero()) return true;
    std::this_thread::sleep_for(std::min(left, kStep));
  }
}

// A failure of the network is none of the request's own sentence yet.
Status with_action(const Status& status, const S3Request& request) {
  return {status.code(), text("cannot ", request.action, ": ", status.message())};
}

}  // namespace

Surroundings machine_surroundings() {
  const auto random = [lock = std::make_shared<std::mutex>(),
                       engine = std::make_shared<std::minstd_rand>(std::random_device{}())] {
    const std::lock_guard held(*lock);
    return std::uniform_real_distribution<double>(0, 1)(*engine);
  };
  return {[] { return std::chrono::system_clock::now(); }, random, sleep_in_steps};
}

Requests::Requests(Settings settings, Environment environment, std::unique_ptr<HttpClient> http, RequestOptions options,
                   Surroundings surroundings)
    : settings_(std::move(settings)),
      http_(std::move(http)),
      options_(options),
      surroundings_(std::move(surroundings)),
      credentials_(std::move(environment), settings_.profile, *http_, surroundings_.wall) {}

Result<HttpRequest> Requests::signed_request(const S3Request& request, const Credentials& keys, WallTime at) const {
  const Target target = target_of(settings_, request.name);
  RequestToSign to_sign{request.method, target.path, {}, request.headers, request.body_sha256};
  for (const QueryItem& item : request.query) {
    to_sign.query.push_back(
        {percent_encoded(item.name, Slash::kEncoded), percent_encoded(item.value, Slash::kEncoded)});
  }
  if (wants_md5_ && !request.body_md5.empty())
    to_sign.headers.push_back({"Content-MD5", identity::to_base64(request.body_md5)});
  to_sign.headers.push_back({"Host", target.host});
  to_sign.headers.push_back({"x-amz-content-sha256", request.body_sha256});
  to_sign.headers.push_back({"x-amz-date", amz_time(at)});
  if (!keys.session_token.empty()) to_sign.headers.push_back({"x-amz-security-token", keys.session_token});
  const auto signature = sign(to_sign, {amz_time(at), settings_.region, "s3"}, keys);
  if (!signature.ok()) return signature.status();
  HttpRequest http;
  http.method = request.method;
  http.url = target.origin + target.path;
  if (!request.query.empty()) http.url += "?" + query_text(to_sign.query);
  http.headers = std::move(to_sign.headers);
  http.headers.push_back({"Authorization", signature->authorization});
  http.body = request.body;
  http.take = request.take;
  http.go_on = request.go_on;
  http.stall = request.is_slow ? options_.stall * kSlowFactor : options_.stall;
  return http;
}

Requests::Outcome Requests::refused(const HttpAnswer& answer, const S3Request& request, const FoundCredentials& keys,
                                    WallTime at) {
  const ServerError error = decode_error(answer.body);
  if (error.code == "InvalidRequest" && error.message.find("Content-MD5") != std::string::npos &&
      !request.body_md5.empty() && !wants_md5_.exchange(true))
    return {refusal(answer, {request.action, request.name, at}, settings_, keys), true};
  const bool renewed =
      (error.code == "ExpiredToken" || error.code == "InvalidToken") && credentials_.renew(keys.credentials);
  return {refusal(answer, {request.action, request.name, at}, settings_, keys),
          renewed || can_be_sent_again(answer, error), asked_pause(answer)};
}

Requests::Outcome Requests::attempt(const S3Request& request) {
  const auto keys = credentials_.get();
  if (!keys.ok()) return {with_action(keys.status(), request)};
  const WallTime at = surroundings_.wall();
  auto http = signed_request(request, keys->credentials, at);
  if (!http.ok()) return {http.status()};
  bool took_bytes = false;
  if (request.take) {
    http->take = [&](ByteSpan bytes) {
      took_bytes = took_bytes || !bytes.empty();
      return request.take(bytes);
    };
  }
  auto answer = http_->send(*http);
  if (!answer.ok()) {
    const Code code = answer.status().code();
    return {with_action(answer.status(), request), code == Code::kUnavailable || code == Code::kDeadline,
            Duration::zero(), took_bytes};
  }
  has_answered_ = true;
  if (answer->status < 200 || answer->status >= 300 || (request.is_slow && is_error(answer->body)))
    return refused(*answer, request, *keys, at);
  return {std::move(answer)};
}

Result<HttpAnswer> Requests::send(const S3Request& request) {
  return send([&]() -> S3Request { return request; });
}

Result<HttpAnswer> Requests::send(const std::function<S3Request()>& next) {
  int failures = 0;
  for (;;) {
    const S3Request request = next();
    Outcome outcome = attempt(request);
    if (outcome.answer.ok() || !outcome.again) return std::move(outcome.answer);
    failures = outcome.took_bytes ? 1 : failures + 1;
    if (failures >= (has_answered_ ? options_.attempts : std::min(options_.attempts, options_.first_attempts))) {
      const Status last = outcome.answer.status();
      return Status(last.code(), text(last.message(), failures > 1 ? text(" (", failures, " attempts)") : ""));
    }
    const Duration pause = std::max(outcome.pause, pause_after(failures, surroundings_.random()));
    const auto go_on = [&] { return !request.go_on || request.go_on(0); };
    if (!surroundings_.sleep(pause, go_on)) return cancelled("the transfer was ended");
  }
}

}  // namespace ravnest::object_store
