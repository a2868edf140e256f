#include "ravnest/plan/address.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "ravnest/base/printable.h"

namespace ravnest::plan {
namespace {

bool is_host_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
}

bool is_ipv6_character(char c) {
  return std::isxdigit(static_cast<unsigned char>(c)) != 0 || c == ':' || c == '.' || c == '%';
}

Status refuse(std::string_view written, std::string_view reason) {
  return invalid("expected \"host:port\", such as \"192.168.1.7:8080\" or \"[::1]:8080\", got ", "\"",
                 printable(written), "\"", ": ", reason);
}

}  // namespace

std::string to_string(const Address& address) {
  const bool bracketed = address.host.find(':') != std::string::npos;
  return bracketed ? text("[", address.host, "]:", address.port) : text(address.host, ":", address.port);
}

Result<Address> parse_address(std::string_view written) {
  const std::size_t colon = written.rfind(':');
  if (colon == std::string_view::npos) return refuse(written, "it has no port");
  std::string_view host = written.substr(0, colon);
  const std::string_view port = written.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
    if (!std::all_of(host.begin(), host.end(), is_ipv6_character) || host.find(':') == std::string_view::npos)
      return refuse(written, "what stands in brackets is no IPv6 address");
  } else if (host.find(':') != std::string_view::npos) {
    return refuse(written, "an IPv6 address must stand in brackets");
  } else if (!std::all_of(host.begin(), host.end(), is_host_character)) {
    return refuse(written, "a host has letters, digits, dots and hyphens only");
  }
  if (host.empty() || host == "." || host == "..") return refuse(written, "it has no host");
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || end != port.data() + port.size() || number < 1 || number > 65535)
    return refuse(written, "the port must be a whole number from 1 to 65535");
  return Address{std::string(host), static_cast<std::uint16_t>(number)};
}

Address dialled(const Address& address) {
  if (address.host == "0.0.0.0") return {"127.0.0.1", address.port};
  if (address.host == "::") return {"::1", address.port};
  return address;
}

}  // namespace ravnest::plan
