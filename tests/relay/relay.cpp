#include "relay/relay.h"

#include <utility>

#include "relay/door.h"
#include "relay/loop.h"

namespace ravnest::relay {

Relay::Relay(Address address, std::unique_ptr<Loop> loop) : address_(std::move(address)), loop_(std::move(loop)) {}
Relay::Relay(Relay&& other) noexcept = default;
Relay& Relay::operator=(Relay&& other) noexcept = default;
Relay::~Relay() = default;

Result<Relay> Relay::open(const Address& listen, const Address& server, const Profile& profile) {
  if (Status checked = check(profile); !checked.ok()) return checked;
  const auto endpoint = resolve(server);
  if (!endpoint.ok()) return endpoint.status();
  auto door = Door::open(listen);
  if (!door.ok()) return door.status();
  Address address = door->address();
  return Relay(std::move(address), std::make_unique<Loop>(*std::move(door), *endpoint, profile));
}

Address Relay::address() const { return dialled(address_); }

void Relay::cut() { loop_->cut(); }

Status Relay::set_refusing(bool refusing) { return loop_->set_refusing(refusing); }

void Relay::set_silent(bool silent) { loop_->set_silent(silent); }

Status Relay::set_profile(const Profile& profile) {
  if (Status checked = check(profile); !checked.ok()) return checked;
  loop_->set_profile(profile);
  return {};
}

Statistics Relay::statistics() const { return loop_->statistics(); }

}  // namespace ravnest::relay
