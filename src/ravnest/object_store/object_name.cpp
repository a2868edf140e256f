#include "ravnest/object_store/object_name.h"

#include <algorithm>

#include "ravnest/base/printable.h"

namespace ravnest::object_store {
namespace {

constexpr std::string_view kScheme = "s3://";
constexpr std::size_t kMostKeyBytes = 1024;

bool is_letter_or_digit(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9');
}

// AWS's own are narrower; other servers, and buckets of before 2018, have upper case and underscores.
bool is_bucket(std::string_view name) {
  return name.size() >= 3 && name.size() <= 255 && is_letter_or_digit(name.front()) &&
         std::ranges::all_of(
             name, [](char byte) { return is_letter_or_digit(byte) || byte == '.' || byte == '-' || byte == '_'; }) &&
         name.find("..") == std::string_view::npos;
}

// How many bytes the character that begins here has; 0 where none does.
std::size_t character_bytes(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xc2 && first < 0xe0   ? 2
                           : (first & 0xf0) == 0xe0        ? 3
                           : first >= 0xf0 && first < 0xf5 ? 4
                                                           : 0;
  if (size == 0 || size > bytes.size()) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  const unsigned second = at(1);
  const bool out_of_range = (first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
                            (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90);
  return out_of_range ? 0 : size;
}

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t size = character_bytes(bytes);
    if (size == 0) return false;
    bytes.remove_prefix(size);
  }
  return true;
}

int hexadecimal(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

Status check_component(std::string_view component, std::string_view key) {
  const auto refuse = [&](std::string_view why) {
    return invalid("the object ", printable(key), " is not made into a file: its name has ", why);
  };
  if (component.empty()) return refuse("an empty component, where two slashes meet or one stands at an end");
  if (component == "." || component == "..") return refuse("a component that is . or ..");
  for (const char byte : component) {
    if (static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f) return refuse("a control character");
    if (byte == '\\') return refuse("a backslash");
  }
  return {};
}

}  // namespace

bool is_s3_url(std::string_view written) { return written.starts_with(kScheme); }

Result<ObjectName> parse_s3_url(std::string_view written) {
  if (!is_s3_url(written)) return invalid(printable(written), " is not an object's name; expected s3://BUCKET/KEY");
  const std::string_view rest = written.substr(kScheme.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view bucket = rest.substr(0, slash);
  if (!is_bucket(bucket)) {
    return invalid(
        printable(written),
        " names no bucket; expected s3://BUCKET/KEY, where BUCKET has 3 or more letters, digits, '.', '-' and '_'");
  }
  const std::string_view key = slash < rest.size() ? rest.substr(slash + 1) : "";
  if (key.size() > kMostKeyBytes)
    return invalid("the key in s3://", bucket, " has ", key.size(), " bytes; S3 has ", kMostKeyBytes, " at most");
  if (!is_utf8(key)) return invalid(printable(written), " is not UTF-8, which keys of S3 are");
  return ObjectName{std::string(bucket), std::string(key)};
}

std::string shown(const ObjectName& name) { return printable(text(kScheme, name.bucket, "/", name.key)); }

std::string percent_encoded(std::string_view bytes, Slash slash) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string written;
  written.reserve(bytes.size());
  for (const char byte : bytes) {
    const auto number = static_cast<unsigned char>(byte);
    if (is_letter_or_digit(byte) || byte == '-' || byte == '.' || byte == '_' || byte == '~' ||
        (byte == '/' && slash == Slash::kKept)) {
      written += byte;
    } else {
      written += '%';
      written += kDigits[number >> 4];
      written += kDigits[number & 15];
    }
  }
  return written;
}

Result<std::string> percent_decoded(std::string_view written) {
  std::string bytes;
  bytes.reserve(written.size());
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (written[i] != '%') {
      bytes += written[i] == '+' ? ' ' : written[i];
      continue;
    }
    const int high = written.size() - i > 2 ? hexadecimal(written[i + 1]) : -1;
    const int low = written.size() - i > 2 ? hexadecimal(written[i + 2]) : -1;
    if (high < 0 || low < 0) return corrupt("a % without two hexadecimal digits in ", printable(written));
    bytes += static_cast<char>(high << 4 | low);
    i += 2;
  }
  return bytes;
}

Result<std::filesystem::path> local_path(std::string_view key) {
  std::string_view rest = key;
  for (;;) {
    const std::size_t slash = rest.find('/');
    if (Status usable = check_component(rest.substr(0, slash), key); !usable.ok()) return usable;
    if (slash == std::string_view::npos) return std::filesystem::path(key);
    rest.remove_prefix(slash + 1);
  }
}

}  // namespace ravnest::object_store
