#include "ravnest/object_store/credentials.h"

#include "ravnest/base/file.h"
#include "ravnest/base/json.h"
#include "ravnest/base/printable.h"

namespace ravnest::object_store {
namespace {

// So long before they expire new ones are fetched; a transfer's longest request has begun and ended by then.
constexpr auto kAhead = std::chrono::minutes(5);
// A metadata service is next door, or not there at all: some networks swallow what is sent to its address.
constexpr auto kMetadataStall = std::chrono::milliseconds(1500);
constexpr std::string_view kContainerHost = "http://169.254.170.2";
constexpr std::string_view kInstanceHost = "http://169.254.169.254";
constexpr std::string_view kInstanceHost6 = "http://[fd00:ec2::254]";

bool is_header_text(std::string_view value) {
  for (const char byte : value) {
    if (static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f) return false;
  }
  return true;
}

Status check_keys(const Credentials& keys, std::string_view from) {
  for (const std::string& each : {keys.access_key_id, keys.secret_access_key, keys.session_token}) {
    if (!is_header_text(each) || each.find(' ') != std::string::npos)
      return invalid("the keys from ", from, " have a space or a control character in them");
  }
  return {};
}

Result<std::string> fetch(HttpClient& http, HttpRequest request, std::string_view what) {
  request.stall = kMetadataStall;
  request.through_proxy = false;
  auto answer = http.send(request);
  if (!answer.ok()) return answer.status();
  if (answer->status != 200) return unavailable(what, " answered with status ", answer->status);
  return std::move(answer->body);
}

// Plain HTTP would show the keys to the network, so AWS's tools allow it to these places only.
bool is_next_door(std::string_view url) {
  for (const std::string_view begin : {"http://127.", "http://localhost", "http://[::1]", "http://169.254.170.2",
                                       "http://169.254.170.23", "http://[fd00:ec2::23]"}) {
    if (!url.starts_with(begin)) continue;
    const std::string_view rest = url.substr(begin.size());
    if (begin == "http://127.") {
      const std::string_view host = rest.substr(0, rest.find_first_of(":/?#"));
      if (host.find_first_not_of("0123456789.") == std::string_view::npos) return true;
    } else if (rest.empty() || rest.front() == ':' || rest.front() == '/') {
      return rest.find('@') == std::string_view::npos;
    }
  }
  return false;
}

}  // namespace

Result<FoundCredentials> decode_metadata_credentials(std::string_view body, const std::string& from) {
  const auto parsed = parse_json(body, "answer");
  if (!parsed.ok() || !parsed->is_object()) return corrupt(from, " answered with something that is no JSON object");
  const auto field = [&](const char* name) -> std::string {
    const auto found = parsed->find(name);
    return found != parsed->end() && found->is_string() ? found->get<std::string>() : "";
  };
  if (const std::string code = field("Code"); !code.empty() && code != "Success")
    return unavailable(from, " has no credentials to give: ", printable(code));
  FoundCredentials found{{field("AccessKeyId"), field("SecretAccessKey"), field("Token")}, from, {}};
  if (found.credentials.access_key_id.empty() || found.credentials.secret_access_key.empty())
    return corrupt(from, " answered without AccessKeyId and SecretAccessKey");
  if (Status usable = check_keys(found.credentials, from); !usable.ok()) return usable;
  if (const std::string expires = field("Expiration"); !expires.empty()) {
    found.expires = parse_iso_time(expires);
    if (!found.expires) return corrupt(from, " says that the keys expire at a time that cannot be read");
  }
  return found;
}

Result<std::optional<FoundCredentials>> CredentialSource::from_environment() const {
  const std::string id = variable(environment_, "AWS_ACCESS_KEY_ID");
  const std::string secret = variable(environment_, "AWS_SECRET_ACCESS_KEY");
  if (id.empty() && secret.empty()) return std::optional<FoundCredentials>();
  if (id.empty() || secret.empty()) {
    return invalid(id.empty() ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID", " is set, but not ",
                   id.empty() ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY");
  }
  FoundCredentials found{{id, secret, variable(environment_, "AWS_SESSION_TOKEN")}, "AWS_ACCESS_KEY_ID", {}};
  if (Status usable = check_keys(found.credentials, found.from); !usable.ok()) return usable;
  return std::optional(std::move(found));
}

Result<std::optional<FoundCredentials>> CredentialSource::from_profile() const {
  FoundCredentials found{{profile_.value("aws_access_key_id"), profile_.value("aws_secret_access_key"),
                          profile_.value("aws_session_token")},
                         profile_.place(),
                         {}};
  if (!found.credentials.access_key_id.empty() && !found.credentials.secret_access_key.empty()) {
    if (Status usable = check_keys(found.credentials, found.from); !usable.ok()) return usable;
    return std::optional(std::move(found));
  }
  for (const char* key :
       {"role_arn", "sso_session", "sso_start_url", "credential_process", "web_identity_token_file"}) {
    if (profile_.value(key).empty()) continue;
    return unsupported(profile_.place(), " has ", key, ", which ravnest does not do; AWS's own tool does: ",
                       "eval \"$(aws configure export-credentials --profile ", printable(profile_.name()),
                       " --format env)\"");
  }
  return std::optional<FoundCredentials>();
}

Result<std::optional<FoundCredentials>> CredentialSource::from_container() const {
  std::string url = variable(environment_, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
  const std::string relative = variable(environment_, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  if (url.empty() && relative.empty()) return std::optional<FoundCredentials>();
  if (!relative.empty()) url = std::string(kContainerHost) + relative;
  const std::string from = text("the container's service at ", printable(url));
  if (!url.starts_with("https://") && !is_next_door(url)) {
    return invalid("AWS_CONTAINER_CREDENTIALS_FULL_URI is ", printable(url),
                   ": over http:// keys come from this machine alone, from elsewhere over https://");
  }
  std::string token = variable(environment_, "AWS_CONTAINER_AUTHORIZATION_TOKEN");
  const std::string token_file = variable(environment_, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  if (!token_file.empty()) {
    auto read = read_file(token_file);
    if (!read.ok()) return read.status().with_context("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    token = std::move(*read);
    while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  }
  if (!is_header_text(token)) return invalid("the token for ", from, " has control characters in it");
  HttpRequest request{.url = url};
  if (!token.empty()) request.headers.push_back({"Authorization", token});
  const auto body = fetch(http_, std::move(request), from);
  if (!body.ok()) return body.status();
  auto found = decode_metadata_credentials(*body, from);
  if (!found.ok()) return found.status();
  return std::optional(std::move(*found));
}

Result<FoundCredentials> CredentialSource::from_instance() const {
  std::string host = variable(environment_, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (host.empty()) {
    const std::string mode = variable(environment_, "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
    host = mode == "IPv6" || mode == "ipv6" ? kInstanceHost6 : kInstanceHost;
  }
  while (host.ends_with('/')) host.pop_back();
  const std::string from = text("the instance's metadata service at ", printable(host));
  const auto token = fetch(http_,
                           {.method = "PUT",
                            .url = host + "/latest/api/token",
                            .headers = {{"X-aws-ec2-metadata-token-ttl-seconds", "21600"}}},
                           from);
  if (!token.ok()) return token.status();
  if (!is_header_text(*token)) return corrupt(from, " gave a token with control characters");
  const std::vector<Header> headers = {{"X-aws-ec2-metadata-token", *token}};
  const std::string roles_url = host + "/latest/meta-data/iam/security-credentials/";
  auto role = fetch(http_, {.url = roles_url, .headers = headers}, from);
  if (!role.ok()) return role.status();
  const std::string name = role->substr(0, role->find('\n'));
  const auto body = fetch(http_, {.url = roles_url + percent_encoded(name, Slash::kEncoded), .headers = headers}, from);
  if (!body.ok()) return body.status();
  return decode_metadata_credentials(*body, from);
}

Result<FoundCredentials> CredentialSource::find() const {
  for (const auto look :
       {&CredentialSource::from_environment, &CredentialSource::from_profile, &CredentialSource::from_container}) {
    auto found = (this->*look)();
    if (!found.ok()) return found.status();
    if (*found) return std::move(**found);
  }
  std::string instance = "AWS_EC2_METADATA_DISABLED is set";
  if (variable(environment_, "AWS_EC2_METADATA_DISABLED") != "true") {
    auto found = from_instance();
    if (found.ok()) return found;
    if (found.status().code() == Code::kCancelled) return found;
    instance = found.status().message();
  }
  return not_found("there are no keys for object storage. Looked at: AWS_ACCESS_KEY_ID (not set); ", profile_.place(),
                   "; the container's service (AWS_CONTAINER_CREDENTIALS_FULL_URI is not set); the instance's (",
                   instance, "). Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run: aws configure");
}

Result<FoundCredentials> CredentialSource::get() {
  const MutexLock lock(mutex_);
  const WallTime now = wall_();
  if (found_ && (!found_->expires || now + kAhead < *found_->expires)) return *found_;
  auto fresh = find();
  if (fresh.ok()) {
    found_ = *fresh;
  } else if (found_ && now < *found_->expires) {
    return *found_;  // still good; the next request tries again
  }
  return fresh;
}

bool CredentialSource::renew(const Credentials& refused) {
  const MutexLock lock(mutex_);
  if (!found_) return false;
  if (found_->credentials.access_key_id != refused.access_key_id ||
      found_->credentials.session_token != refused.session_token)
    return true;  // another thread was faster
  if (!found_->expires) return false;
  found_.reset();
  return true;
}

}  // namespace ravnest::object_store
