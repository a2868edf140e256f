#include "ravnest/strategy/launch/torchelastic_store.h"

#include <charconv>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "ravnest/base/clock.h"
#include "ravnest/net/socket.h"

namespace ravnest::strategy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kConnectTime = seconds(5);
constexpr auto kAttemptTime = seconds(1);
constexpr auto kAskEvery = milliseconds(100);

std::string key_of(const Place& place) { return text("ravnest/", place.run_id, "/", place.restarts, "/rank_0"); }

Status store_failed(const Place& place, const std::exception& error) {
  const std::string whole = error.what();
  return unavailable("torchrun's store at ", place.master, " cannot be used: ", whole.substr(0, whole.find('\n')));
}

// Whether somebody answers there. The store's client would write about it, with a stack of calls, and could not be
// ended.
Status reach(const Place& place, const Poll& poll) {
  const TimePoint until = SystemClock().now() + kConnectTime;
  for (;;) {
    const auto socket = Socket::connect(place.master, Wait::of(kAttemptTime));
    if (socket.ok()) return {};
    if (Status goes_on = poll(); !goes_on.ok()) return goes_on;
    if (SystemClock().now() >= until)
      return unavailable("torchrun's store at ", place.master, " cannot be used: ", socket.status().message());
    std::this_thread::sleep_for(kAskEvery);
  }
}

// A client of its own for each use. Throws what the store throws.
c10::intrusive_ptr<c10d::TCPStore> connected(const Place& place) {
  c10d::TCPStoreOptions options;
  options.port = place.master.port;
  options.isServer = false;
  options.waitWorkers = false;
  options.timeout = kConnectTime;
  return c10::make_intrusive<c10d::TCPStore>(place.master.host, options);
}

// "40001 10.0.0.1"; the host may be empty.
Result<Address> address_in(const std::vector<std::uint8_t>& value) {
  const std::string written(value.begin(), value.end());
  Address address;
  const char* const end = written.data() + written.size();
  const auto [at, error] = std::from_chars(written.data(), end, address.port);
  if (error != std::errc() || at == end || *at != ' ' || address.port == 0)
    return corrupt("what torchrun's store has for the address of rank 0 is none");
  address.host.assign(at + 1, end);
  return address;
}

Status publish(const Place& place, const Address& own) {
  const std::string written = text(own.port, " ", own.host);
  if (Status reached = reach(place, [] { return Status(); }); !reached.ok()) return reached;
  try {
    connected(place)->set(key_of(place), std::vector<std::uint8_t>(written.begin(), written.end()));
  } catch (const std::exception& error) {
    return store_failed(place, error);
  }
  return {};
}

Result<Address> find(const Place& place, const Poll& poll) {
  if (Status reached = reach(place, poll); !reached.ok()) return reached;
  // Asked again and again: the store's own waiting could not be ended.
  try {
    const auto store = connected(place);
    while (!store->check({key_of(place)})) {
      if (Status goes_on = poll(); !goes_on.ok()) return goes_on;
      std::this_thread::sleep_for(kAskEvery);
    }
    return address_in(store->get(key_of(place)));
  } catch (const std::exception& error) {
    return store_failed(place, error);
  }
}

}  // namespace

MasterExchange torchelastic_exchange(const Place& place) {
  return {.publish = [place](const Address& own) { return publish(place, own); },
          .find = [place](const Poll& poll) { return find(place, poll); }};
}

}  // namespace ravnest::strategy
