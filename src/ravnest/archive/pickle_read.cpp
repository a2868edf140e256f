#include "ravnest/archive/pickle_read.h"

#include <bit>
#include <utility>

#include "ravnest/base/json_field.h"
#include "ravnest/base/printable.h"

namespace ravnest::archive {
namespace {

constexpr std::string_view kOrderedDict = "collections.OrderedDict";
constexpr std::size_t kMostNameBytes = 256;  // of a class or function, in a message

// Follows a pickle's instructions on a stack, as Python does, but only those that put data together.
class PickleProgram {
 public:
  PickleProgram(ByteSpan bytes, const PickleGlobals& allowed, const PickleLimits& limits)
      : reader_(bytes), allowed_(allowed), limits_(limits) {}

  const PickleValue* run() {
    if (next() != 0x80) fail("does not begin as pickles of protocol 2 and above do");
    const unsigned protocol = next();
    if (protocol < 2 || protocol > 5) refuse("is of protocol ", protocol, "; 2 to 5 are read");
    for (std::size_t steps = 0;; ++steps) {
      if (steps == limits_.instructions) refuse("has more than ", limits_.instructions, " instructions");
      at_ = reader_.position();
      const std::uint8_t code = next();
      if (code == '.') break;
      if (!number(code) && !characters(code) && !container(code) && !memory(code) && !object(code))
        refuse_instruction(code);
    }
    if (stack_.size() != 1 || !marks_.empty()) fail("ends with ", stack_.size(), " values in place of one");
    if (reader_.remaining() > 0) fail("ends before its last ", reader_.remaining(), " bytes");
    return stack_.back();
  }

  std::deque<PickleValue> values() { return std::move(values_); }

 private:
  // Whole and other numbers, and the constants.
  bool number(std::uint8_t code) {
    switch (code) {
      case 'N': push(PickleKind::kNone); return true;
      case 0x88: push(PickleKind::kBoolean).integer = 1; return true;
      case 0x89: push(PickleKind::kBoolean); return true;
      case 'K': push(PickleKind::kInteger).integer = next(); return true;
      case 'M': push(PickleKind::kInteger).integer = take(reader_.u16()); return true;
      case 'J': push(PickleKind::kInteger).integer = static_cast<std::int32_t>(take(reader_.u32())); return true;
      case 0x8a: push(PickleKind::kInteger).integer = long_integer(); return true;
      case 'G': {
        std::uint64_t bits = 0;
        for (int i = 0; i < 8; ++i) bits = bits << 8 | next();  // big-endian
        push(PickleKind::kNumber).number = std::bit_cast<double>(bits);
        return true;
      }
      default: return false;
    }
  }

  bool characters(std::uint8_t code) {
    switch (code) {
      case 0x8c: return push_text(PickleKind::kString, next());
      case 'X': return push_text(PickleKind::kString, take(reader_.u32()));
      case 0x8d: return push_text(PickleKind::kString, take(reader_.u64()));
      case 'U':
      case 'C': return push_text(PickleKind::kBytes, next());
      case 'T':
      case 'B': return push_text(PickleKind::kBytes, take(reader_.u32()));
      case 0x8e: return push_text(PickleKind::kBytes, take(reader_.u64()));
      default: return false;
    }
  }

  bool container(std::uint8_t code) {
    switch (code) {
      case '(': marks_.push_back(stack_.size()); return true;
      case ')': push(PickleKind::kTuple); return true;
      case 0x85: return push_tuple(1);
      case 0x86: return push_tuple(2);
      case 0x87: return push_tuple(3);
      case 't': return push_tuple(above_mark());
      case ']': push(PickleKind::kList); return true;
      case 'a': return append(PickleKind::kList, 1);
      case 'e': return append(PickleKind::kList, above_mark());
      case '}': push(PickleKind::kDict); return true;
      case 's': return append(PickleKind::kDict, 2);
      case 'u': return append(PickleKind::kDict, above_mark());
      default: return false;
    }
  }

  // What was put aside, to stand in several places. Picklers number it 0, 1, 2, ...
  bool memory(std::uint8_t code) {
    switch (code) {
      case 'q': return keep(next());
      case 'r': return keep(take(reader_.u32()));
      case 0x94: return keep(kept_.size());
      case 'h': return recall(next());
      case 'j': return recall(take(reader_.u32()));
      case 0x95:
        if (take(reader_.u64()) > reader_.remaining()) fail("is cut short");
        return true;
      default: return false;
    }
  }

  bool object(std::uint8_t code) {
    switch (code) {
      case 'c': {
        const std::string_view module = line();
        push_global(module, line());
        return true;
      }
      case 0x93: {
        const PickleValue* name = pop();
        const PickleValue* module = pop();
        if (module->kind != PickleKind::kString || name->kind != PickleKind::kString)
          fail("names a class by what is no string");
        push_global(module->text, name->text);
        return true;
      }
      case 'Q': {
        const PickleValue* id = pop();
        push(PickleKind::kReference).items = {id};
        return true;
      }
      case 'R': call(); return true;
      case 'b':
        pop();  // attributes
        if (top()->kind != PickleKind::kDict) refuse("gives attributes to ", described(*top()));
        return true;
      default: return false;
    }
  }

  void push_global(std::string_view module, std::string_view name) {
    const std::string whole = text(module.substr(0, kMostNameBytes), ".", name.substr(0, kMostNameBytes));
    if (whole == kOrderedDict) {
      push(PickleKind::kGlobal).text = kOrderedDict;
      return;
    }
    const auto found = allowed_.find(whole);
    if (found == allowed_.end()) refuse("names ", printable(whole), ", which is not among the plain data that is read");
    push(PickleKind::kGlobal).text = *found;
  }

  void call() {
    const PickleValue* arguments = pop();
    const PickleValue* function = pop();
    if (function->kind != PickleKind::kGlobal) fail("calls ", described(*function));
    if (arguments->kind != PickleKind::kTuple) fail("calls ", function->text, " with ", described(*arguments));
    if (function->text != kOrderedDict) {
      push(PickleKind::kCall).items = {function, arguments};
      return;
    }
    if (!arguments->items.empty()) refuse("makes an OrderedDict from ", described(*arguments->items[0]));
    push(PickleKind::kDict);
  }

  std::int64_t long_integer() {
    const unsigned size = next();
    if (size > 8) refuse("has an integer of ", size, " bytes");
    std::uint64_t value = 0;
    for (unsigned i = 0; i < size; ++i) value |= std::uint64_t{next()} << (8 * i);
    if (size > 0 && size < 8 && (value >> (8 * size - 1) & 1) != 0) value |= ~std::uint64_t{0} << (8 * size);
    return static_cast<std::int64_t>(value);
  }

  bool push_text(PickleKind kind, std::uint64_t size) {
    push(kind).text = as_string_view(take(reader_.bytes(size)));
    return true;
  }

  bool push_tuple(std::size_t count) {
    auto items = pop(count);
    push(PickleKind::kTuple).items = std::move(items);
    return true;
  }

  bool append(PickleKind kind, std::size_t count) {
    const auto items = pop(count);
    PickleValue* whole = top();
    if (whole->kind != kind) fail("adds items to ", described(*whole));
    if (kind == PickleKind::kDict && count % 2 != 0) fail("has a key without a value");
    whole->items.insert(whole->items.end(), items.begin(), items.end());
    return true;
  }

  bool keep(std::uint64_t number) {
    if (number > kept_.size()) fail("puts a value aside as number ", number, ", where ", kept_.size(), " are");
    if (number == kept_.size()) kept_.push_back(nullptr);
    kept_[static_cast<std::size_t>(number)] = top();
    return true;
  }

  bool recall(std::uint64_t number) {
    if (number >= kept_.size()) fail("asks for value ", number, " of ", kept_.size(), " that were put aside");
    stack_.push_back(kept_[static_cast<std::size_t>(number)]);
    return true;
  }

  PickleValue& push(PickleKind kind) {
    if (values_.size() == limits_.values) refuse("has more than ", limits_.values, " values");
    PickleValue& value = values_.emplace_back();
    value.kind = kind;
    stack_.push_back(&value);
    return value;
  }

  PickleValue* top() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("wants a value where there is none");
    return stack_.back();
  }
  PickleValue* pop() {
    PickleValue* value = top();
    stack_.pop_back();
    return value;
  }
  std::vector<const PickleValue*> pop(std::size_t count) {
    if (stack_.size() - (marks_.empty() ? 0 : marks_.back()) < count) fail("wants values where there are none");
    const auto begin = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<const PickleValue*> values(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    return values;
  }
  // How many values stand above the last mark, which goes.
  std::size_t above_mark() {
    if (marks_.empty()) fail("ends a group that has not begun");
    const std::size_t count = stack_.size() - marks_.back();
    marks_.pop_back();
    return count;
  }

  std::string_view line() {
    const std::size_t start = reader_.position();
    std::size_t size = 0;
    while (next() != '\n') {
      if (++size > kMostNameBytes) fail("has a name of more than ", kMostNameBytes, " bytes");
    }
    static_cast<void>(reader_.seek(start));
    const std::string_view name = as_string_view(take(reader_.bytes(size)));
    static_cast<void>(reader_.skip(1));
    return name;
  }

  std::uint8_t next() { return take(reader_.u8()); }

  template <class T>
  T take(Result<T> result) {
    if (!result.ok()) fail("is cut short");
    return std::move(result).value();
  }

  void refuse_instruction(std::uint8_t code) {
    if (code >= 0x20 && code < 0x7f)
      refuse("has the instruction '", static_cast<char>(code), "', which data does not need");
    refuse("has the instruction ", static_cast<int>(code), ", which data does not need");
  }

  template <class... Ts>
  [[noreturn]] void fail(const Ts&... parts) const {
    throw DecodeError{corrupt("the pickle, at byte ", at_, ", ", parts...)};
  }
  template <class... Ts>
  [[noreturn]] void refuse(const Ts&... parts) const {
    throw DecodeError{unsupported("the pickle, at byte ", at_, ", ", parts...)};
  }

  ByteReader reader_;
  const PickleGlobals& allowed_;
  const PickleLimits limits_;
  std::size_t at_ = 0;  // of the instruction
  std::deque<PickleValue> values_;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;  // how high the stack was
  std::vector<PickleValue*> kept_;
};

}  // namespace

std::string described(const PickleValue& value) {
  switch (value.kind) {
    case PickleKind::kNone: return "None";
    case PickleKind::kBoolean: return "a bool";
    case PickleKind::kInteger: return "an integer";
    case PickleKind::kNumber: return "a float";
    case PickleKind::kString: return "a string";
    case PickleKind::kBytes: return "bytes";
    case PickleKind::kTuple: return "a tuple";
    case PickleKind::kList: return "a list";
    case PickleKind::kDict: return "a dict";
    case PickleKind::kGlobal: return std::string(value.text);
    case PickleKind::kCall: return text("a call of ", value.items[0]->text);
    case PickleKind::kReference: return "a storage";
  }
  return "nothing";
}

const PickleValue* find(const PickleValue& dict, std::string_view key) {
  if (dict.kind != PickleKind::kDict) return nullptr;
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    if (dict.items[i]->kind == PickleKind::kString && dict.items[i]->text == key) return dict.items[i + 1];
  }
  return nullptr;
}

Result<Pickle> Pickle::read(ByteSpan bytes, const PickleGlobals& allowed, const PickleLimits& limits) {
  PickleProgram program(bytes, allowed, limits);
  try {
    const PickleValue* root = program.run();
    return Pickle(program.values(), root);
  } catch (const DecodeError& error) {
    return error.status;
  }
}

}  // namespace ravnest::archive
