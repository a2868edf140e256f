#include "ravnest/transport/greeting.h"

#include "ravnest/base/printable.h"

namespace ravnest::transport {

Status check_greeting(const Greeter& greeter, const wire::Hello& hello) {
  const std::string from = printable(hello.from);
  if (!greeter.certified.empty() && greeter.certified != hello.from) {
    return invalid("the certificate of ", printable(greeter.certified), " is used by a node that calls itself ", from);
  }
  if (hello.plan != greeter.plan) {
    return invalid(from, " is of plan ", printable(hello.plan), ", ", greeter.self, " of plan ", greeter.plan,
                   ": unpack the same plan's packages on both machines");
  }
  if (!greeter.expected.empty() && greeter.expected != hello.from) {
    return invalid(from, " answers where ", greeter.expected, " should be: check the addresses in the plan");
  }
  if (hello.to != greeter.self) {
    return invalid(from, " looks for ", printable(hello.to), " where ", greeter.self,
                   " is: check the addresses in the plan");
  }
  if (hello.from == greeter.self && hello.purpose == wire::Purpose::kSession)
    return invalid("another node calls itself ", greeter.self, " too");
  if (hello.session == 0 && hello.purpose == wire::Purpose::kSession) return invalid(from, " names no session");
  return {};
}

}  // namespace ravnest::transport
