#include "ravnest/archive/pickle/pickle_stack.h"

#include <utility>

namespace ravnest::archive {

PickleValue& PickleStack::push(PickleKind kind) {
  if (values_.size() == most_values_) refuse_pickle("has more than ", most_values_, " values");
  PickleValue& value = values_.emplace_back();
  value.kind = kind;
  stack_.push_back(&value);
  return value;
}

PickleValue& PickleStack::push_text(PickleKind kind, std::string_view text) {
  PickleValue& value = push(kind);
  value.text = text;
  return value;
}

PickleValue* PickleStack::top() {
  if (height() == 0) fail_pickle("wants a value where there is none");
  return stack_.back();
}

PickleValue* PickleStack::pop() {
  PickleValue* value = top();
  stack_.pop_back();
  return value;
}

std::size_t PickleStack::above_mark() {
  if (marks_.empty()) fail_pickle("ends a group that has not begun");
  const std::size_t count = height();
  marks_.pop_back();
  return count;
}

std::vector<const PickleValue*> PickleStack::take(std::size_t count) {
  if (height() < count) fail_pickle("wants values where there are none");
  const auto begin = stack_.end() - static_cast<std::ptrdiff_t>(count);
  std::vector<const PickleValue*> values(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  return values;
}

void PickleStack::gather(std::size_t count) {
  std::vector<const PickleValue*> items = take(count);
  push(PickleKind::kTuple).items = std::move(items);
}

void PickleStack::append(PickleKind kind, std::size_t count) {
  const std::vector<const PickleValue*> items = take(count);
  PickleValue* whole = top();
  if (whole->kind != kind) fail_pickle("adds items to ", described(*whole));
  if (kind == PickleKind::kDict && count % 2 != 0) fail_pickle("has a key without a value");
  whole->items.insert(whole->items.end(), items.begin(), items.end());
}

void PickleStack::keep(std::uint64_t number) {
  if (number > kept_.size()) fail_pickle("puts a value aside as number ", number, ", where ", kept_.size(), " are");
  PickleValue* value = top();
  if (number == kept_.size()) kept_.push_back(nullptr);
  kept_[static_cast<std::size_t>(number)] = value;
}

void PickleStack::recall(std::uint64_t number) {
  if (number >= kept_.size()) fail_pickle("asks for value ", number, " of ", kept_.size(), " that were put aside");
  stack_.push_back(kept_[static_cast<std::size_t>(number)]);
}

const PickleValue* PickleStack::only() const {
  if (stack_.size() != 1 || !marks_.empty()) fail_pickle("ends with ", stack_.size(), " values in place of one");
  return stack_.back();
}

}  // namespace ravnest::archive
