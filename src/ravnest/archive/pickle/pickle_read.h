// What a pickle holds, as data. Nothing is ever called, imported or made an object of: a pickle is a program, and this
// reads what the program would put together.
//
// None, bools, integers of up to 64 bits, floats, strings, bytes, tuples, lists, dicts and OrderedDicts are what they
// are. A class or function stays a name, and the caller says which names may be there at all; a call stays the name
// with its arguments; a persistent id, by which torch.save means a storage, stays what it was made of. Attributes that
// a pickle adds to a dict (`_metadata` of a state dict) are left out. Protocols 2 to 5, and of their instructions those
// that data needs: kUnsupported for any other, and for a name that is not allowed; kCorrupt where instructions
// contradict each other. Both say at which byte.
//
// No length and no number in the pickle is trusted: memory is at most 200 times its size, and never more than 1 GB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ravnest/base/bytes.h"
#include "ravnest/base/status.h"

namespace ravnest::archive {

enum class PickleKind : std::uint8_t {
  kNone,
  kBoolean,
  kInteger,
  kNumber,
  kString,
  kBytes,
  kTuple,
  kList,
  kDict,
  kGlobal,
  kCall,
  kReference,
};

struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  std::int64_t integer = 0;  // kInteger; kBoolean, as 0 or 1
  double number = 0;         // kNumber
  std::string_view text;     // kString and kBytes, as they stand in the pickle; kGlobal: "module.name"
  // Of a tuple or list the items; of a dict a key and its value in turn; of a call the name and the tuple of arguments;
  // of a persistent id that id. A list or dict may contain itself: who walks down counts how deep.
  std::vector<const PickleValue*> items;
};

// "a list", "a number", "a call of torch.Size": for messages.
std::string described(const PickleValue& value);

// The value of a dict's key that is this string; null without one, and for what is no dict.
const PickleValue* find(const PickleValue& dict, std::string_view key);

using PickleGlobals = std::set<std::string, std::less<>>;

// Smaller ones than these serve tests.
struct PickleLimits {
  std::size_t instructions = 10'000'000;  // some 200,000 tensors
  std::size_t values = 4'000'000;
};

// A pickle that was read. Movable; the values stay where they are for as long as it lives.
class Pickle {
 public:
  // `bytes` and `allowed` must outlive it. OrderedDict needs no permission.
  static Result<Pickle> read(ByteSpan bytes, const PickleGlobals& allowed, const PickleLimits& limits = {});

  const PickleValue& root() const { return *root_; }

 private:
  Pickle(std::deque<PickleValue> values, const PickleValue* root) : values_(std::move(values)), root_(root) {}

  std::deque<PickleValue> values_;
  const PickleValue* root_;
};

}  // namespace ravnest::archive
