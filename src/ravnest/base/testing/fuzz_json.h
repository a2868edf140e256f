// For fuzz targets: a mutator that starts from what was accepted, and changes to JSON documents that leave them JSON. A
// mutation of bytes hardly ever gets past a parser.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace ravnest::fuzzing {

using Random = std::minstd_rand;

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "does not hold: " << what << "\n";
  std::abort();
}

inline std::size_t below(Random& random, std::size_t bound) { return bound == 0 ? 0 : random() % bound; }

// Inputs that were accepted. Nearly all that the fuzzer collects is refused somewhere, each for a new reason; what lies
// behind the last check is only met by mutations that start from something that passes them.
class Accepted {
 public:
  void remember(std::string_view input) {
    if (inputs_.size() < kMost)
      inputs_.emplace_back(input);
    else
      inputs_[next_++ % kMost] = input;
  }
  // One of them, or nothing where there is none yet or it is `input`'s own turn.
  const std::string* instead(Random& random) const {
    return inputs_.empty() || random() % 2 == 0 ? nullptr : &inputs_[below(random, inputs_.size())];
  }

 private:
  static constexpr std::size_t kMost = 256;
  std::vector<std::string> inputs_;
  std::size_t next_ = 0;
};

inline Accepted& accepted() {
  static Accepted all;
  return all;
}

// What LLVMFuzzerCustomMutator has to do: mostly `change(input, random)` of this input, or of one that was accepted
// before. Where that gives nothing, and one time in four, this input's own bytes are changed.
template <class Change>
std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned int seed,
                   const Change& change) {
  Random random(seed);
  if (random() % 4 != 0) {
    const std::string* other = accepted().instead(random);
    const std::string changed =
        change(other != nullptr ? *other : std::string(reinterpret_cast<const char*>(data), size), random);
    if (!changed.empty() && changed.size() <= max_size) {
      std::ranges::copy(changed, reinterpret_cast<char*>(data));
      return changed.size();
    }
  }
  return LLVMFuzzerMutate(data, size, max_size);
}

// The fuzzer's own mutation of some bytes.
inline std::string mutated_bytes(std::string bytes, std::size_t room = 64) {
  const std::size_t size = bytes.size();
  bytes.resize(size + room);
  bytes.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(bytes.data()), size, bytes.size()));
  return bytes;
}

inline void collect(nlohmann::json& value, std::vector<nlohmann::json*>& all) {
  all.push_back(&value);
  if (value.is_structured()) {
    for (nlohmann::json& child : value) collect(child, all);
  }
}

inline nlohmann::json strange_value(Random& random) {
  static const std::vector<nlohmann::json> values = {nullptr,
                                                     true,
                                                     false,
                                                     0,
                                                     1,
                                                     -1,
                                                     2,
                                                     7,
                                                     12,
                                                     99,
                                                     1000000,
                                                     INT32_MAX,
                                                     INT32_MIN,
                                                     INT64_MAX,
                                                     INT64_MIN,
                                                     UINT64_MAX,
                                                     1.5,
                                                     -0.0,
                                                     1e300,
                                                     "",
                                                     "x",
                                                     "Infinity",
                                                     "-Infinity",
                                                     "NaN",
                                                     nlohmann::json::array(),
                                                     nlohmann::json::object()};
  return values[below(random, values.size())];
}

inline void mutate_scalar(nlohmann::json& value, Random& random) {
  if (value.is_number_integer() && random() % 4 != 0) {
    const auto number = value.get<std::uint64_t>();  // unsigned, so that it may wrap around
    switch (random() % 4) {
      case 0: value = static_cast<std::int64_t>(number + 1); break;
      case 1: value = static_cast<std::int64_t>(number - 1); break;
      case 2: value = static_cast<std::int64_t>(number * 2); break;
      default: value = static_cast<std::int64_t>(number ^ (std::uint64_t{1} << below(random, 64)));
    }
  } else if (value.is_string() && random() % 2 == 0) {
    value = mutated_bytes(value.get<std::string>());
  } else {
    value = strange_value(random);
  }
}

inline void mutate_structure(nlohmann::json& value, const nlohmann::json& other, Random& random) {
  if (value.empty() || random() % 8 == 0) {
    value = random() % 2 == 0 ? strange_value(random) : other;
    return;
  }
  const std::size_t at = below(random, value.size());
  auto child = value.begin();
  std::advance(child, at);
  switch (random() % 4) {
    case 0: value.erase(child); break;
    case 1: *child = other; break;
    case 2:
      if (value.is_array())
        value.insert(child, other);
      else
        value[child.key() + "_"] = *child;
      break;
    default:
      if (value.is_array()) {
        const nlohmann::json copy = *child;
        value.push_back(copy);
      } else if (other.is_object() && !other.empty()) {
        value[other.begin().key()] = other.begin().value();
      }
  }
}

// The document with one change, or a few more, as text.
inline std::string mutated_json(nlohmann::json document, Random& random) {
  for (bool more = true; more; more = random() % 4 == 0) {
    std::vector<nlohmann::json*> all;
    collect(document, all);
    nlohmann::json& value = *all[below(random, all.size())];
    const nlohmann::json other = *all[below(random, all.size())];
    if (!value.is_structured()) {
      if (random() % 4 == 0 && !other.is_structured())
        value = other;
      else
        mutate_scalar(value, random);
    } else {
      mutate_structure(value, other, random);
    }
  }
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ravnest::fuzzing
