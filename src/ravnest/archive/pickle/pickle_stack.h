// The stack that a pickle's instructions work on, and the values that they put aside.
//
// What cannot be done throws DecodeError (base/json_field.h), with a Status whose message is the end of a sentence that
// begins "the pickle, at byte 12, ". One owner.
#pragma once

#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "ravnest/archive/pickle/pickle_read.h"
#include "ravnest/base/json_field.h"

namespace ravnest::archive {

template <class... Ts>
[[noreturn]] void fail_pickle(const Ts&... parts) {
  throw DecodeError{corrupt(parts...)};
}
template <class... Ts>
[[noreturn]] void refuse_pickle(const Ts&... parts) {
  throw DecodeError{unsupported(parts...)};
}

class PickleStack {
 public:
  explicit PickleStack(std::size_t most_values) : most_values_(most_values) {}

  // A new value on top.
  PickleValue& push(PickleKind kind);
  PickleValue& push_text(PickleKind kind, std::string_view text);
  // What stands on top, above the last mark: never less than that.
  PickleValue* top();
  PickleValue* pop();

  void mark() { marks_.push_back(stack_.size()); }
  // How many values stand above the last mark, which goes.
  std::size_t above_mark();

  // The `count` values on top become a tuple; or items of the list or dict below them.
  void gather(std::size_t count);
  void append(PickleKind kind, std::size_t count);

  // Puts the value on top aside as well. Picklers number these 0, 1, 2, ..., and so no number is beyond the next one.
  void keep(std::uint64_t number);
  void recall(std::uint64_t number);
  std::size_t kept() const { return kept_.size(); }

  // The only value left, at the end.
  const PickleValue* only() const;
  std::deque<PickleValue> values() { return std::move(values_); }

 private:
  std::size_t height() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }
  std::vector<const PickleValue*> take(std::size_t count);

  std::size_t most_values_;
  std::deque<PickleValue> values_;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;  // how high the stack was
  std::vector<PickleValue*> kept_;
};

}  // namespace ravnest::archive
