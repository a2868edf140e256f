#include "ravnest/object_store/wall_time.h"

#include <algorithm>
#include <array>
#include <ctime>

namespace ravnest::object_store {
namespace {

constexpr std::time_t kLastSecond = 7'258'118'400;  // the first of 2200

WallTime time_of(std::tm parts) {
  return std::chrono::system_clock::from_time_t(std::clamp<std::time_t>(::timegm(&parts), 0, kLastSecond));
}

std::string written_as(WallTime time, const char* format) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 40> written{};
  const std::size_t size = std::strftime(written.data(), written.size(), format, &parts);
  return {written.data(), size};
}

}  // namespace

std::optional<WallTime> parse_iso_time(std::string_view written) {
  std::tm parts{};
  const std::string text(written.substr(0, 40));
  const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return std::nullopt;
  if (*rest == '.') {
    ++rest;
    while (*rest >= '0' && *rest <= '9') ++rest;
  }
  if (std::string_view(rest) != "Z" && std::string_view(rest) != "+00:00") return std::nullopt;
  return time_of(parts);
}

std::optional<WallTime> parse_http_time(std::string_view written) {
  std::tm parts{};
  const std::string text(written.substr(0, 40));
  const char* rest = ::strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  if (rest == nullptr || *rest != '\0') return std::nullopt;
  return time_of(parts);
}

std::string amz_time(WallTime time) { return written_as(time, "%Y%m%dT%H%M%SZ"); }

std::string shown_time(WallTime time) { return written_as(time, "%Y-%m-%d %H:%M:%S UTC"); }

}  // namespace ravnest::object_store
