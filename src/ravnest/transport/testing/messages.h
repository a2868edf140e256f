// What tests of transports share: messages that can be told apart, and waits with a deadline.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ravnest/transport/endpoint.h"

namespace ravnest::transport {

inline TimePoint in_seconds(double seconds) {
  return SystemClock().now() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// Generous: only a test that fails waits so long.
inline TimePoint patiently() { return in_seconds(60); }

inline wire::Message numbered(std::uint64_t number) { return wire::Over{number, {}}; }

// The number of a `numbered` or `filled` message.
inline std::uint64_t number_of(const wire::Message& message) {
  if (const auto* over = std::get_if<wire::Over>(&message)) return over->passes;
  return std::get<wire::Forward>(message).head.pass;
}

// A message with a tensor of that many bytes, which depend on the number.
inline wire::Message filled(std::uint64_t number, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>((i * 31 + number * 7 + (i >> 8)) & 255);
  wire::Forward forward;
  forward.head.pass = number;
  forward.tensors.push_back(
      {0,
       false,
       {DType::kUInt8, codec::CodecKind::kNone, {static_cast<std::int64_t>(bytes)}, slice_of(std::move(data))}});
  return forward;
}

// Whether a received `filled` message is what was sent under its number.
inline bool is_intact(const wire::Message& message) {
  const auto& received = std::get<wire::Forward>(message).tensors.at(0).tensor.data.bytes;
  const wire::Message expected_message = filled(number_of(message), received.size());
  const auto& expected = std::get<wire::Forward>(expected_message).tensors[0].tensor.data.bytes;
  return std::equal(received.begin(), received.end(), expected.begin(), expected.end());
}

// The next message, whatever happens to peers meanwhile.
inline Result<Event> next_message(Endpoint& endpoint, TimePoint deadline = patiently(),
                                  Channel channel = Channel::kTraining) {
  for (;;) {
    auto event = endpoint.receive(deadline, channel);
    if (!event.ok() || std::holds_alternative<wire::Message>(event->what)) return event;
  }
}

// The next change of a peer to that state; messages in between are dropped.
inline Result<PeerChange> next_state(Endpoint& endpoint, const std::string& peer, PeerState state,
                                     TimePoint deadline = patiently(), Channel channel = Channel::kTraining) {
  for (;;) {
    auto event = endpoint.receive(deadline, channel);
    if (!event.ok()) return event.status();
    const auto* change = std::get_if<PeerChange>(&event->what);
    if (change != nullptr && event->peer == peer && change->state == state) return *change;
  }
}

}  // namespace ravnest::transport
