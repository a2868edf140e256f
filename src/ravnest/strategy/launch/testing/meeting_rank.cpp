// For tests: one rank, as a launcher starts it. Meets the others, says so, and leaves when all are about to.
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>

#include "ravnest/strategy/launch/ranks.h"
#include "ravnest/strategy/launch/rendezvous.h"
#include "ravnest/strategy/launch/torchelastic_store.h"

extern char** environ;

namespace {

using namespace ravnest;

int fail(const Status& status) {
  std::cerr << status.message() << '\n';
  return 1;
}

strategy::Environment environment() {
  strategy::Environment all;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string entry = *at;
    const std::size_t equals = entry.find('=');
    all[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return all;
}

}  // namespace

int main() {
  const auto place = strategy::find_place({}, environment(), 0);
  if (!place.ok()) return fail(place.status());
  strategy::RendezvousOptions options;
  options.place = *place;
  options.software = "test";
  if (const char* token = std::getenv("RAVNEST_TOKEN")) {
    const auto parsed = strategy::RunToken::parse(token, "RAVNEST_TOKEN");
    if (!parsed.ok()) return fail(parsed.status());
    options.token = *parsed;
  }
  if (place->agent_store) options.exchange = strategy::torchelastic_exchange(*place);
  auto met = strategy::meet(options, [] { return Status(); });
  if (!met.ok()) return fail(met.status());
  std::cout << text("rank ", met->rank, " of ", met->world, " has met the others by ", place->launcher, '\n')
            << std::flush;
  strategy::Ranks ranks(*std::move(met));
  const Status left = ranks.leave(SystemClock().now() + std::chrono::seconds(10));
  return left.ok() ? 0 : fail(left);
}
