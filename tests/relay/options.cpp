#include "relay/options.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <system_error>

namespace ravnest::relay {
namespace {

template <class T>
Result<T> number(std::string_view written) {
  T value{};
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), value);
  if (error != std::errc() || end != written.data() + written.size()) {
    return invalid("\"", written, "\" is not a number that it can take");
  }
  return value;
}

Result<Duration> milliseconds(std::string_view written) {
  const auto count = number<double>(written);
  if (!count.ok()) return count.status();
  if (!(std::abs(*count) < 1e9)) return invalid("\"", written, "\" is too long a time");
  return Duration(static_cast<Duration::rep>(*count * 1e6));
}

// As `parse_address`, but with port 0 allowed.
Result<Address> listen_address(std::string_view written) {
  if (!written.ends_with(":0")) return parse_address(written);
  auto address = parse_address(text(written.substr(0, written.size() - 1), "1"));
  if (address.ok()) address->port = 0;
  return address;
}

template <class T, class F>
Status set(const Result<T>& value, const F& setter) {
  if (value.ok()) setter(*value);
  return value.status();
}

Status apply(std::string_view name, std::string_view value, Options& options) {
  Profile& profile = options.profile;
  const auto both = [&](auto member, auto each) { profile.up.*member = profile.down.*member = each; };
  if (name == "--to") return set(parse_address(value), [&](const Address& to) { options.to = to; });
  if (name == "--listen") return set(listen_address(value), [&](const Address& at) { options.listen = at; });
  if (name == "--profile") return set(profile_named(value), [&](const Profile& named) { profile = named; });
  if (name == "--mbps") return set(number<double>(value), [&](double mbps) { both(&Direction::mbps, mbps); });
  if (name == "--delay-ms") return set(milliseconds(value), [&](Duration time) { both(&Direction::delay, time / 2); });
  if (name == "--jitter-ms") return set(milliseconds(value), [&](Duration time) { both(&Direction::jitter, time); });
  const auto set_count = [&](std::uint64_t& member) {
    return set(number<std::uint64_t>(value), [&](std::uint64_t count) { member = count; });
  };
  if (name == "--cut-min") return set_count(profile.cut_min_bytes);
  if (name == "--cut-max") return set_count(profile.cut_max_bytes);
  if (name == "--seed") return set_count(profile.seed);
  return invalid("there is no such option");
}

}  // namespace

Result<Options> parse(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; i += 2) {
    const std::string_view name = arguments[i];
    if (name == "--commands") {
      options.takes_commands = true;
      --i;
      continue;
    }
    if (i + 1 == count) return invalid(name, ": a value is missing, or there is no such option; see relay --help");
    if (Status applied = apply(name, arguments[i + 1], options); !applied.ok()) return applied.with_context(name);
  }
  if (options.to.port == 0) return invalid("--to HOST:PORT is missing; see relay --help");
  return options;
}

}  // namespace ravnest::relay
