#include "ravnest/net/address.h"

#include <cctype>
#include <charconv>
#include <system_error>

#include "ravnest/base/printable.h"

namespace ravnest {
namespace {

Status bad(std::string_view text, std::string_view why) {
  return invalid("\"", printable(text), "\" is not an address: ", why,
                 "; expected HOST:PORT, such as 192.168.1.7:8080 or [::1]:8080");
}

bool belongs_in_a_host(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("._-:%").find(c) != std::string_view::npos;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Address& address) {
  const bool brackets = address.host.find(':') != std::string::npos;
  return out << (brackets ? "[" : "") << address.host << (brackets ? "]:" : ":") << address.port;
}

std::string to_string(const Address& address) { return text(address); }

Result<Address> parse_address(std::string_view written) {
  const auto colon = written.rfind(':');
  if (colon == std::string_view::npos) return bad(written, "it has no port");
  std::string_view host = written.substr(0, colon);
  const std::string_view digits = written.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']') && host.size() > 2) {
    host = host.substr(1, host.size() - 2);
    if (host.find(':') == std::string_view::npos) return bad(written, "brackets are for IPv6");
  } else if (host.find(':') != std::string_view::npos) {
    return bad(written, "IPv6 needs brackets");
  }
  if (host.empty()) return bad(written, "it has no host");
  for (const char c : host) {
    if (!belongs_in_a_host(c)) return bad(written, "its host has a character that no host has");
  }
  unsigned port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port == 0 || port > 65535) {
    return bad(written, "its port is not a number from 1 to 65535");
  }
  return Address{std::string(host), static_cast<std::uint16_t>(port)};
}

Address dialled(const Address& address) {
  if (address.host == "0.0.0.0") return {"127.0.0.1", address.port};
  if (address.host == "::") return {"::1", address.port};
  return address;
}

}  // namespace ravnest
