// What people write by hand, checked value by value: each complaint names the place, what was expected and what stands
// there. They throw DecodeError, as Field does; decoders catch it at their border.
#pragma once

#include <initializer_list>
#include <string_view>

#include "ravnest/base/json_field.h"
#include "ravnest/plan/pool/range.h"

namespace ravnest::plan {

// "pool.json.0.IP: expected EXPECTED, got 17".
[[noreturn]] void refuse(const Field& field, std::string_view expected);

void expect_object(const Field& field, std::string_view expected);
Field expect_member(const Field& field, std::string_view key, std::string_view expected);
double expect_number(const Field& field, const NumberRange& range);
std::int64_t expect_whole(const Field& field, std::int64_t least, std::int64_t most);
// Refuses every other key.
void expect_only(const Field& field, std::initializer_list<std::string_view> known);

}  // namespace ravnest::plan
