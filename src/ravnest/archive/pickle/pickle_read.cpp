#include "ravnest/archive/pickle/pickle_read.h"

#include <bit>
#include <utility>

#include "ravnest/archive/pickle/pickle_stack.h"
#include "ravnest/base/printable.h"

namespace ravnest::archive {
namespace {

constexpr std::string_view kOrderedDict = "collections.OrderedDict";
constexpr std::size_t kMostNameBytes = 256;  // of a class or function

// Follows a pickle's instructions as Python does, but only those that put data together.
class PickleProgram {
 public:
  PickleProgram(ByteSpan bytes, const PickleGlobals& allowed, const PickleLimits& limits)
      : reader_(bytes), allowed_(allowed), most_instructions_(limits.instructions), stack_(limits.values) {}

  const PickleValue* run() {
    try {
      follow();
      return stack_.only();
    } catch (const DecodeError& error) {
      throw DecodeError{{error.status.code(), text("the pickle, at byte ", at_, ", ", error.status.message())}};
    }
  }

  std::deque<PickleValue> values() { return stack_.values(); }

 private:
  void follow() {
    if (next() != 0x80) fail_pickle("does not begin as pickles of protocol 2 and above do");
    const unsigned protocol = next();
    if (protocol < 2 || protocol > 5) refuse_pickle("is of protocol ", protocol, "; 2 to 5 are read");
    for (std::size_t done = 0;; ++done) {
      if (done == most_instructions_) refuse_pickle("has more than ", most_instructions_, " instructions");
      at_ = reader_.position();
      const std::uint8_t code = next();
      if (code == '.') break;
      if (!number(code) && !characters(code) && !container(code) && !memory(code) && !object(code))
        refuse_pickle("has the instruction ", static_cast<int>(code), ", which data does not need");
    }
    if (reader_.remaining() > 0) fail_pickle("ends before its last ", reader_.remaining(), " bytes");
  }

  // Whole and other numbers, and the constants.
  bool number(std::uint8_t code) {
    switch (code) {
      case 'N': stack_.push(PickleKind::kNone); return true;
      case 0x88: stack_.push(PickleKind::kBoolean).integer = 1; return true;
      case 0x89: stack_.push(PickleKind::kBoolean); return true;
      case 'K': return push_integer(next());
      case 'M': return push_integer(take(reader_.u16()));
      case 'J': return push_integer(static_cast<std::int32_t>(take(reader_.u32())));
      case 0x8a: return push_integer(long_integer());
      case 'G': {
        std::uint64_t bits = 0;
        for (int i = 0; i < 8; ++i) bits = bits << 8 | next();  // big-endian
        stack_.push(PickleKind::kNumber).number = std::bit_cast<double>(bits);
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
      case '(': stack_.mark(); return true;
      case ')': stack_.gather(0); return true;
      case 0x85: stack_.gather(1); return true;
      case 0x86: stack_.gather(2); return true;
      case 0x87: stack_.gather(3); return true;
      case 't': stack_.gather(stack_.above_mark()); return true;
      case ']': stack_.push(PickleKind::kList); return true;
      case 'a': stack_.append(PickleKind::kList, 1); return true;
      case 'e': stack_.append(PickleKind::kList, stack_.above_mark()); return true;
      case '}': stack_.push(PickleKind::kDict); return true;
      case 's': stack_.append(PickleKind::kDict, 2); return true;
      case 'u': stack_.append(PickleKind::kDict, stack_.above_mark()); return true;
      default: return false;
    }
  }

  // What is put aside, to stand in several places; and where a part of the pickle ends, which is of no use here.
  bool memory(std::uint8_t code) {
    switch (code) {
      case 'q': stack_.keep(next()); return true;
      case 'r': stack_.keep(take(reader_.u32())); return true;
      case 0x94: stack_.keep(stack_.kept()); return true;
      case 'h': stack_.recall(next()); return true;
      case 'j': stack_.recall(take(reader_.u32())); return true;
      case 0x95:
        if (take(reader_.u64()) > reader_.remaining()) fail_pickle("is cut short");
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
        const PickleValue* name = stack_.pop();
        const PickleValue* module = stack_.pop();
        if (module->kind != PickleKind::kString || name->kind != PickleKind::kString)
          fail_pickle("names a class by what is no string");
        push_global(module->text, name->text);
        return true;
      }
      case 'Q': {
        const PickleValue* id = stack_.pop();
        stack_.push(PickleKind::kReference).items = {id};
        return true;
      }
      case 'R': call(); return true;
      case 'b':
        stack_.pop();  // attributes
        if (stack_.top()->kind != PickleKind::kDict) refuse_pickle("gives attributes to ", described(*stack_.top()));
        return true;
      default: return false;
    }
  }

  void push_global(std::string_view module, std::string_view name) {
    const std::string whole = text(module.substr(0, kMostNameBytes), ".", name.substr(0, kMostNameBytes));
    if (whole == kOrderedDict) {
      stack_.push_text(PickleKind::kGlobal, kOrderedDict);
      return;
    }
    const auto found = allowed_.find(whole);
    if (found == allowed_.end())
      refuse_pickle("names ", printable(whole), ", which is not among the plain data that is read");
    stack_.push_text(PickleKind::kGlobal, *found);
  }

  void call() {
    const PickleValue* arguments = stack_.pop();
    const PickleValue* function = stack_.pop();
    if (function->kind != PickleKind::kGlobal) fail_pickle("calls ", described(*function));
    if (arguments->kind != PickleKind::kTuple) fail_pickle("calls ", function->text, " with ", described(*arguments));
    if (function->text != kOrderedDict) {
      stack_.push(PickleKind::kCall).items = {function, arguments};
      return;
    }
    if (!arguments->items.empty()) refuse_pickle("makes an OrderedDict from ", described(*arguments->items[0]));
    stack_.push(PickleKind::kDict);
  }

  std::int64_t long_integer() {
    const unsigned size = next();
    if (size > 8) refuse_pickle("has an integer of ", size, " bytes");
    std::uint64_t value = 0;
    for (unsigned i = 0; i < size; ++i) value |= std::uint64_t{next()} << (8 * i);
    if (size > 0 && size < 8 && (value >> (8 * size - 1) & 1) != 0) value |= ~std::uint64_t{0} << (8 * size);
    return static_cast<std::int64_t>(value);
  }

  bool push_integer(std::int64_t value) {
    stack_.push(PickleKind::kInteger).integer = value;
    return true;
  }
  bool push_text(PickleKind kind, std::uint64_t size) {
    stack_.push_text(kind, as_string_view(take(reader_.bytes(size))));
    return true;
  }

  std::string_view line() {
    const std::size_t start = reader_.position();
    std::size_t size = 0;
    while (next() != '\n') {
      if (++size > kMostNameBytes) fail_pickle("has a name of more than ", kMostNameBytes, " bytes");
    }
    static_cast<void>(reader_.seek(start));
    const std::string_view name = as_string_view(take(reader_.bytes(size)));
    static_cast<void>(reader_.skip(1));
    return name;
  }

  std::uint8_t next() { return take(reader_.u8()); }

  template <class T>
  static T take(Result<T> result) {
    if (!result.ok()) fail_pickle("is cut short");
    return std::move(result).value();
  }

  ByteReader reader_;
  const PickleGlobals& allowed_;
  std::size_t most_instructions_;
  std::size_t at_ = 0;  // of the instruction
  PickleStack stack_;
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
