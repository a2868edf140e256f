// Quantities as people read them.
#pragma once

#include <string>
#include <string_view>

namespace ravnest {

std::string megabytes(double bytes);                        // "912 MB": 10^6 bytes, rounded up
std::string quantity(double value, std::string_view unit);  // "4.20 MB", "17.0 k": three digits, prefixes of a thousand
std::string compact(double value);                          // "14.2k": the same where room is short
std::string duration(double seconds);                       // "1.25 ms"
std::string clock_time(double seconds);                     // "1 h 02 min", "3 min 05 s", "12 s"; days above 48 h

}  // namespace ravnest
