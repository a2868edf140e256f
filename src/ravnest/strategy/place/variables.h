// The environment, with questions whose answers may fail.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "ravnest/base/status.h"
#include "ravnest/strategy/place/place.h"

namespace ravnest::strategy {

// A variable that is empty counts as one that is not set. The environment has to outlive this.
class Variables {
 public:
  explicit Variables(const Environment& all) : all_(all) {}

  bool has(const std::string& name) const;
  std::string text_of(const std::string& name) const { return has(name) ? all_.at(name) : std::string(); }

  // kInvalid, with the name and what it says, for anything but a whole number within these bounds.
  Result<int> number(const std::string& name, int least, int most) const;

  // kInvalid where only some of a launcher's variables are set: the rest is not guessed.
  Status all_of(std::string_view launcher, std::initializer_list<const char*> names) const;

 private:
  const Environment& all_;
};

}  // namespace ravnest::strategy
