#include "ravnest/object_store/settings.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ravnest/base/printable.h"

namespace ravnest::object_store {
namespace {

namespace fs = std::filesystem;

bool is_ascii_word(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') || byte == '-' ||
         byte == '_';
}

bool is_host_byte(char byte) {
  return is_ascii_word(byte) || std::string_view(".:[]").find(byte) != std::string_view::npos;
}
bool is_base_byte(char byte) { return is_ascii_word(byte) || byte == '.' || byte == '~' || byte == '/'; }

bool is_port(std::string_view digits) {
  return !digits.empty() && digits.size() <= 5 && digits.find_first_not_of("0123456789") == std::string_view::npos;
}

// A host's name, a number, or [IPv6], with or without a port.
bool is_host(std::string_view host) {
  if (host.empty() || !std::ranges::all_of(host, is_host_byte)) return false;
  const std::size_t bracket = host.find(']');
  const std::size_t name_end = host.front() == '[' ? bracket : std::min(host.find(':'), host.size());
  if (name_end == std::string_view::npos || name_end == 0) return false;
  std::string_view rest = host.substr(host.front() == '[' ? name_end + 1 : name_end);
  return rest.empty() || (rest.front() == ':' && is_port(rest.substr(1)));
}

// The first that says something, with its name.
std::pair<std::string, std::string> first_of(
    const std::initializer_list<std::pair<std::string, std::string>>& sources) {
  for (const auto& source : sources) {
    if (!source.second.empty()) return source;
  }
  return {};
}

fs::path file_of(const Environment& environment, const std::string& name, const char* otherwise) {
  const std::string said = variable(environment, name);
  const std::string home = variable(environment, "HOME");
  if (said.starts_with("~/") && !home.empty()) return fs::path(home) / said.substr(2);
  if (!said.empty()) return said;
  return home.empty() ? fs::path() : fs::path(home) / ".aws" / otherwise;
}

Status set_region(Settings& settings, const Environment& environment) {
  const auto [from, region] = first_of({{"AWS_REGION", variable(environment, "AWS_REGION")},
                                        {"AWS_DEFAULT_REGION", variable(environment, "AWS_DEFAULT_REGION")},
                                        {settings.profile.place(), settings.profile.value("region")}});
  if (region.empty()) return {};
  if (!std::ranges::all_of(region, is_ascii_word))
    return invalid("\"", printable(region), "\" is no region (", from, ")");
  settings.region = region;
  settings.region_from = from;
  return {};
}

Status set_endpoint(Settings& settings, const Environment& environment) {
  const Profile& profile = settings.profile;
  const auto [from, url] = first_of({{"AWS_ENDPOINT_URL_S3", variable(environment, "AWS_ENDPOINT_URL_S3")},
                                     {"AWS_ENDPOINT_URL", variable(environment, "AWS_ENDPOINT_URL")},
                                     {profile.place(), profile.service_value("s3.endpoint_url")},
                                     {profile.place(), profile.value("s3.endpoint_url")},
                                     {profile.place(), profile.value("endpoint_url")}});
  if (url.empty()) {
    settings.endpoint.host =
        text("s3.", settings.region, ".amazonaws.com", settings.region.starts_with("cn-") ? ".cn" : "");
    return {};
  }
  auto endpoint = parse_endpoint(url, from);
  if (!endpoint.ok()) return endpoint.status();
  settings.endpoint = std::move(*endpoint);
  settings.endpoint_from = from;
  return {};
}

Status set_addressing(Settings& settings, const Environment& environment) {
  const auto [from, style] = first_of({{"RAVNEST_S3_ADDRESSING", variable(environment, "RAVNEST_S3_ADDRESSING")},
                                       {settings.profile.place(), settings.profile.value("s3.addressing_style")}});
  if (style == "path") settings.addressing = Addressing::kPath;
  if (style == "virtual") settings.addressing = Addressing::kVirtual;
  if (style.empty() || style == "auto" || settings.addressing != Addressing::kAuto) return {};
  return invalid("\"", printable(style), "\" is no way to address buckets (", from,
                 "); expected path, virtual or auto");
}

bool is_virtual(const Settings& settings, const std::string& bucket) {
  if (settings.addressing != Addressing::kAuto) return settings.addressing == Addressing::kVirtual;
  // A certificate for *.HOST does not hold for a name with one more dot.
  return settings.endpoint_from.empty() && bucket.size() <= 63 && std::ranges::all_of(bucket, [](char byte) {
           return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '-';
         });
}

}  // namespace

std::string variable(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

Result<Endpoint> parse_endpoint(std::string_view url, std::string_view what) {
  const auto wrong = [&] {
    return invalid(what, ": \"", printable(url), "\" is no endpoint; expected https://HOST or http://HOST:PORT");
  };
  Endpoint endpoint;
  endpoint.https = url.starts_with("https://");
  if (!endpoint.https && !url.starts_with("http://")) return wrong();
  std::string_view rest = url.substr(endpoint.https ? 8 : 7);
  while (rest.ends_with('/')) rest.remove_suffix(1);
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view host = rest.substr(0, slash);
  const std::string_view base = rest.substr(slash);
  if (!is_host(host) || !std::ranges::all_of(base, is_base_byte) || base.find("..") != std::string_view::npos)
    return wrong();
  const std::string_view own_port = endpoint.https ? ":443" : ":80";
  if (host.ends_with(own_port)) host.remove_suffix(own_port.size());  // as in the header Host
  endpoint.host = std::string(host);
  endpoint.base = std::string(base);
  return endpoint;
}

Result<Settings> read_settings(const Environment& environment) {
  Settings settings;
  const auto [from, name] = first_of({{"AWS_PROFILE", variable(environment, "AWS_PROFILE")},
                                      {"AWS_DEFAULT_PROFILE", variable(environment, "AWS_DEFAULT_PROFILE")}});
  auto profile = Profile::open(name.empty() ? "default" : name, !name.empty(),
                               file_of(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials"),
                               file_of(environment, "AWS_CONFIG_FILE", "config"));
  if (!profile.ok()) return profile.status();
  settings.profile = std::move(*profile);
  if (Status set = set_region(settings, environment); !set.ok()) return set;
  if (Status set = set_endpoint(settings, environment); !set.ok()) return set;
  if (Status set = set_addressing(settings, environment); !set.ok()) return set;
  settings.ca_bundle = first_of({{"AWS_CA_BUNDLE", variable(environment, "AWS_CA_BUNDLE")},
                                 {"profile", settings.profile.value("ca_bundle")}})
                           .second;
  return settings;
}

Target target_of(const Settings& settings, const ObjectName& name) {
  const Endpoint& endpoint = settings.endpoint;
  const bool in_host = is_virtual(settings, name.bucket);
  const std::string key = percent_encoded(name.key, Slash::kKept);
  Target target;
  target.host = in_host ? name.bucket + "." + endpoint.host : endpoint.host;
  target.path = text(endpoint.base, "/", in_host ? "" : name.bucket, !in_host && !key.empty() ? "/" : "", key);
  target.origin = text(endpoint.https ? "https://" : "http://", target.host);
  return target;
}

}  // namespace ravnest::object_store
