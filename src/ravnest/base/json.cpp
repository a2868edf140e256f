#include "ravnest/base/json.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ravnest/base/printable.h"

namespace ravnest {
namespace {

using nlohmann::json;

// Where the nesting first passes the limit. Counts brackets outside of strings; that the rest is JSON is the
// parser's to say.
std::optional<std::size_t> too_deep_at(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) return i;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return std::nullopt;
}

// Builds nothing; learns where and why the parser stops.
struct FirstError final : nlohmann::json_sax<json> {
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t at, const std::string&, const json::exception& error) override {
    position = at;
    reason = error.what();
    return false;
  }

  std::size_t position = 0;
  std::string reason;
};

// "[json.exception...] parse error at line 1, column 2: syntax error ..." without what stands before the reason. The
// parser quotes what it read last, which may be all of the text.
std::string shortened(std::string reason) {
  constexpr std::size_t kLongest = 200;
  if (const auto tag = reason.find("] "); tag != std::string::npos) reason.erase(0, tag + 2);
  if (reason.starts_with("parse error")) {
    if (const auto colon = reason.find(": "); colon != std::string::npos) reason.erase(0, colon + 2);
  }
  if (reason.size() > kLongest) reason.replace(kLongest, std::string::npos, "...");
  return printable(reason);
}

// Text that parse_json accepts.
template <class Json>
Result<Json> without_repeats(std::string_view text, std::string_view what) {
  if (const auto value = parse_json(text, what); !value.ok()) return value.status();
  std::optional<std::string> repeated;
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int, typename Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.template get<std::string>()).second)
      repeated = value.template get<std::string>();
    return true;
  };
  Json parsed = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (repeated) return corrupt(what, ": the key \"", printable(*repeated), "\" stands twice in one object");
  return parsed;
}

}  // namespace

Result<json> parse_json(std::string_view text, std::string_view what) {
  if (const auto position = too_deep_at(text)) {
    return corrupt(what, ": JSON is nested deeper than ", kMaxJsonDepth, " levels at byte ", *position);
  }
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!value.is_discarded()) return value;
  FirstError error;
  json::sax_parse(text, &error);
  return corrupt(what, ": not valid JSON at byte ", error.position, ": ", shortened(std::move(error.reason)));
}

Result<json> parse_json_without_repeats(std::string_view text, std::string_view what) {
  return without_repeats<json>(text, what);
}

Result<nlohmann::ordered_json> parse_json_by_hand(std::string_view text, std::string_view what) {
  return without_repeats<nlohmann::ordered_json>(text, what);
}

}  // namespace ravnest
