// Who may talk to whom: what is checked of a peer's hello before anything else is listened to.
#pragma once

#include <string>
#include <string_view>

#include "ravnest/base/status.h"
#include "ravnest/wire/frame.h"

namespace ravnest::transport {

struct Greeter {
  std::string_view self;
  std::string_view plan;
  std::string_view expected;   // whom this node dialled; empty: it was dialled
  std::string_view certified;  // the name in the peer's certificate; empty: insecure
};

// kInvalid, with a sentence that both sides may show, where the two must not talk. A node may ask itself, but not have
// a session with itself.
Status check_greeting(const Greeter& greeter, const wire::Hello& hello);

}  // namespace ravnest::transport
