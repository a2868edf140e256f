// The secret that the ranks of a run share: whoever has it can be a rank, and nobody else.
//
// All ranks derive from it who they are (run_identity.h), so it never crosses the network. It is never part of a
// message or a line of the log either: what is said of a bad token names where it came from.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "ravnest/base/bytes.h"
#include "ravnest/base/status.h"

namespace ravnest::strategy {

class RunToken {
 public:
  // 256 random bits as 52 lower-case letters and digits: a double click selects it, and none of them looks like
  // another.
  static Result<RunToken> create();

  // `source` is for messages: "RAVNEST_TOKEN". White space around the token does not count. kInvalid for what has other
  // characters than letters, digits, '-', '_', '.', '+', '/' and '=', and for less than 128 bits: each hexadecimal
  // digit counts as 4 where there is nothing else, other characters as 5, and few different ones are no secret.
  static Result<RunToken> parse(std::string_view written, std::string_view source);

  // The one in the file.
  static Result<RunToken> read(const std::filesystem::path& file);

  // What `ravnest token` prints, and processes hand to those that they start. Keep it out of everything else.
  const std::string& text() const { return text_; }
  ByteSpan secret() const { return as_byte_span(text_); }

  friend bool operator==(const RunToken&, const RunToken&) = default;

 private:
  explicit RunToken(std::string text) : text_(std::move(text)) {}

  std::string text_;
};

}  // namespace ravnest::strategy
