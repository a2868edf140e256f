// Quantities as people read them.
#pragma once

#include <string>
#include <string_view>

namespace ravnest::plan {

std::string megabytes(double bytes);                        // "912 MB": 10^6 bytes, rounded up
std::string quantity(double value, std::string_view unit);  // "4.20 MB", "17.0 k": three digits, prefixes of a thousand
std::string duration(double seconds);                       // "1.25 ms"

}  // namespace ravnest::plan
