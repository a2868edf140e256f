#include "ravnest/object_store/refusal.h"

#include "ravnest/base/printable.h"
#include "ravnest/object_store/answers.h"

namespace ravnest::object_store {
namespace {

// AWS refuses what is further off than 15 minutes.
constexpr auto kClocksDiffer = std::chrono::minutes(5);

// "403 AccessDenied: Access Denied".
std::string said(const HttpAnswer& answer, const ServerError& error) {
  std::string message = error.message;
  while (message.ends_with('.') || message.ends_with(' ')) message.pop_back();
  return text(answer.status, error.code.empty() ? "" : " ", error.code, message.empty() ? "" : ": ", message);
}

std::string bucket_region(const HttpAnswer& answer, const ServerError& error) {
  const std::string_view header = answer.header("x-amz-bucket-region");
  return header.empty() ? error.region : printable(header);
}

bool is_elsewhere(const HttpAnswer& answer, const ServerError& error) {
  return answer.status == 301 || answer.status == 307 || error.code == "AuthorizationHeaderMalformed" ||
         error.code == "IllegalLocationConstraintException";
}

std::string endpoint_words(const Settings& settings) {
  return text(settings.endpoint.url(), settings.endpoint_from.empty() ? "" : " (", settings.endpoint_from,
              settings.endpoint_from.empty() ? "" : ")");
}

Status about_clock(const HttpAnswer& answer, const Asked& asked, const std::string& server_said) {
  const auto theirs = parse_http_time(answer.header("date"));
  return invalid("cannot ", asked.action, ": the clocks differ: it is ", shown_time(asked.at), " here and ",
                 theirs ? shown_time(*theirs) : "another time", " at the server (", server_said,
                 "); set this machine's clock");
}

Status about_keys(const Asked& asked, const FoundCredentials& keys, const std::string& server_said,
                  const ServerError& error) {
  const std::string id = printable(keys.credentials.access_key_id);
  if (error.code == "SignatureDoesNotMatch") {
    return invalid("cannot ", asked.action, ": the server says ", server_said, ". The secret key is not that of ", id,
                   " (from ", keys.from, ")");
  }
  if (error.code == "InvalidAccessKeyId") {
    return invalid("cannot ", asked.action, ": the server says ", server_said, ". It does not know the key ", id,
                   " (from ", keys.from, ")");
  }
  if (error.code == "ExpiredToken" || error.code == "InvalidToken" || error.code == "TokenRefreshRequired") {
    return invalid("cannot ", asked.action, ": the server says ", server_said, ". The session of the key ", id,
                   " (from ", keys.from, ") is over: get new keys");
  }
  return invalid("cannot ", asked.action, ": the server says ", server_said, ". The key ", id, " (from ", keys.from,
                 ") may not do that; docs/object_storage.md has the rights that are needed");
}

}  // namespace

Status refusal(const HttpAnswer& answer, const Asked& asked, const Settings& settings, const FoundCredentials& keys) {
  const ServerError error = decode_error(answer.body);
  const std::string server_said = said(answer, error);
  const std::string region = bucket_region(answer, error);
  if (is_elsewhere(answer, error) || (answer.status == 400 && !region.empty() && region != settings.region)) {
    if (!region.empty() && region != settings.region) {
      return invalid("cannot ", asked.action, ": the bucket ", printable(asked.name.bucket), " is in the region ",
                     region, ", not in ", settings.region, " (", settings.region_from, "); set AWS_REGION=", region);
    }
    return invalid("cannot ", asked.action, ": the server says ", server_said,
                   ". The bucket is at another endpoint than ", endpoint_words(settings));
  }
  if (answer.status == 403 || answer.status == 401) {
    const auto theirs = parse_http_time(answer.header("date"));
    if (error.code == "RequestTimeTooSkewed" ||
        (theirs && (*theirs - asked.at > kClocksDiffer || asked.at - *theirs > kClocksDiffer)))
      return about_clock(answer, asked, server_said);
    return about_keys(asked, keys, server_said, error);
  }
  if (error.code == "ExpiredToken" || error.code == "InvalidToken" || error.code == "TokenRefreshRequired")
    return about_keys(asked, keys, server_said, error);
  if (error.code == "NoSuchBucket") {
    return not_found("cannot ", asked.action, ": there is no bucket ", printable(asked.name.bucket), " at ",
                     endpoint_words(settings));
  }
  if (error.code == "NoSuchUpload") return not_found("cannot ", asked.action, ": the upload is not there any more");
  if (answer.status == 404) return not_found("cannot ", asked.action, ": there is no such object");
  if (answer.status == 412)
    return corrupt("cannot ", asked.action, ": the object was changed meanwhile; run the same command again");
  if (answer.status == 501)
    return unsupported("cannot ", asked.action, ": the server says ", server_said, ": it does not do that");
  const Code code = answer.status >= 500 || answer.status == 429 || answer.status == 408 || answer.status == 200
                        ? Code::kUnavailable
                        : Code::kInvalid;
  return {code, text("cannot ", asked.action, ": the server says ", server_said)};
}

}  // namespace ravnest::object_store
