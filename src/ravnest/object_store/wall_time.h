// The time of day, as servers write it.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace ravnest::object_store {

using WallTime = std::chrono::system_clock::time_point;

// What is out of 1970 to 2200 is put to the nearer end of it: a server may say that something never expires, and a
// time point has 64 bits of nanoseconds.

// "2026-11-19T14:08:52Z", with or without fractions of a second; nothing for anything else.
std::optional<WallTime> parse_iso_time(std::string_view written);
// "Thu, 19 Nov 2026 14:08:52 GMT", as in the header Date.
std::optional<WallTime> parse_http_time(std::string_view written);

// "20261119T140852Z", as it is signed.
std::string amz_time(WallTime time);
// "2026-11-19 14:08:52 UTC", for people.
std::string shown_time(WallTime time);

}  // namespace ravnest::object_store
