// A JSON value together with where it stands, so that every complaint about it can say so.
//
// Reading what is not there or of another type throws DecodeError, with a Status that names the place; a decoder
// catches it at its border and returns that Status, so that none leaves the folder of a decoder.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ravnest/base/status.h"

namespace ravnest {

struct DecodeError {
  Status status;
};

class Field {
 public:
  Field(const nlohmann::json& value, std::string where) : value_(&value), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  const nlohmann::json& json() const { return *value_; }
  bool is_null() const { return value_->is_null(); }

  [[noreturn]] void fail(std::string_view what) const { throw DecodeError{corrupt(where_, ": ", what)}; }
  [[noreturn]] void refuse(std::string_view what) const { throw DecodeError{unsupported(where_, ": ", what)}; }

  Field operator[](std::string_view key) const {
    const auto found = object().find(key);
    if (found == value_->end()) fail(text("no \"", key, "\""));
    return {*found, text(where_, ".", key)};
  }

  // The member, or nothing where it is absent or null.
  std::optional<Field> optional(std::string_view key) const {
    const auto found = object().find(key);
    if (found == value_->end() || found->is_null()) return std::nullopt;
    return Field(*found, text(where_, ".", key));
  }

  template <class Function>
  void for_each(Function&& function) const {
    if (!value_->is_array()) fail("expected a list");
    for (std::size_t i = 0; i < value_->size(); ++i) function(Field((*value_)[i], text(where_, "[", i, "]")));
  }

  template <class Function>
  void for_each_member(Function&& function) const {
    for (const auto& [key, value] : object().items()) function(key, Field(value, text(where_, ".", key)));
  }

  // The tag and the value of a union, {"as_int": 3}.
  std::pair<std::string, Field> tagged() const {
    if (object().size() != 1) fail("expected a union of exactly one member");
    const auto member = value_->begin();
    return {member.key(), Field(member.value(), text(where_, ".", member.key()))};
  }

  std::string string() const {
    if (!value_->is_string()) fail("expected a string");
    return value_->get<std::string>();
  }
  bool boolean() const {
    if (!value_->is_boolean()) fail("expected true or false");
    return value_->get<bool>();
  }
  std::int64_t integer() const {
    if (!value_->is_number_integer()) fail("expected a whole number");
    if (value_->is_number_unsigned() && value_->get<std::uint64_t>() > INT64_MAX) fail("the number is too large");
    return value_->get<std::int64_t>();
  }
  double number() const {
    if (value_->is_number()) return value_->get<double>();
    if (*value_ == "Infinity") return std::numeric_limits<double>::infinity();
    if (*value_ == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (*value_ == "NaN") return std::numeric_limits<double>::quiet_NaN();
    fail("expected a number");
  }

 private:
  const nlohmann::json& object() const {
    if (!value_->is_object()) fail("expected an object");
    return *value_;
  }

  const nlohmann::json* value_;
  std::string where_;
};

// JSON has no infinities; they are spelt as strings, as torch does.
inline nlohmann::json number_to_json(double value) {
  if (value == std::numeric_limits<double>::infinity()) return "Infinity";
  if (value == -std::numeric_limits<double>::infinity()) return "-Infinity";
  if (value != value) return "NaN";
  return value;
}

}  // namespace ravnest
