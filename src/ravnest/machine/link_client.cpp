#include "ravnest/machine/link_client.h"

#include <array>
#include <vector>

#include "ravnest/machine/link_protocol.h"
#include "ravnest/machine/link_stream.h"
#include "ravnest/net/socket.h"

namespace ravnest {
namespace {

Status introduce(Socket& socket, const LinkHello& hello, const Wait& wait) {
  if (Status sent = socket.send(encode(hello), wait); !sent.ok()) return sent;
  std::array<std::byte, kAnswerBytes> bytes{};
  if (Status received = socket.receive(bytes, wait); !received.ok()) return received;
  const auto answer = decode_answer(bytes);
  if (!answer.ok()) return answer.status();
  switch (*answer) {
    case LinkAnswer::kReady: return {};
    case LinkAnswer::kBusy: return unavailable("it is measuring with another client; try again in a minute");
    case LinkAnswer::kRefused: break;
  }
  return invalid("it refuses to measure with ", hello.echoes, " echoes and streams of ", hello.stream_ms, " ms");
}

Result<double> median_round_trip_ms(Socket& socket, std::uint32_t echoes, const Wait& wait) {
  const SystemClock clock;
  std::vector<double> times;
  for (std::uint32_t i = 0; i < echoes; ++i) {
    std::array<std::byte, 1> byte{};
    const TimePoint start = clock.now();
    if (Status sent = socket.send(byte, wait); !sent.ok()) return sent;
    if (Status received = socket.receive(byte, wait); !received.ok()) return received;
    times.push_back(std::chrono::duration<double, std::milli>(clock.now() - start).count());
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

// Waits until the server has closed: from then on it is free for others, and for the next call of this client. Nothing
// depends on it here, so that a failure is none.
void say_goodbye(Socket& socket, const Wait& wait) {
  std::array<std::byte, 1> byte{};
  if (socket.send(byte, wait).ok()) static_cast<void>(socket.receive_some(byte, wait).ok());
}

Result<LinkMeasurement> measure(Socket& socket, const LinkOptions& options, const Wait& wait) {
  const auto stream_ms = std::chrono::duration_cast<std::chrono::milliseconds>(options.stream).count();
  const LinkHello hello{options.echoes, static_cast<std::uint32_t>(stream_ms)};
  if (Status status = introduce(socket, hello, wait); !status.ok()) return status;
  const auto round_trip = median_round_trip_ms(socket, options.echoes, wait);
  if (!round_trip.ok()) return round_trip.status();
  if (Status sent = send_stream(socket, options.stream, wait); !sent.ok()) return sent;
  std::array<std::byte, kRateBytes> report{};
  if (Status received = socket.receive(report, wait); !received.ok()) return received;
  const auto up = decode_rate(report);
  if (!up.ok()) return up.status();
  const auto down = receive_stream(socket, options.stream, wait);
  if (!down.ok()) return down.status();
  say_goodbye(socket, wait);
  return LinkMeasurement{up->mbps(), down->mbps(), *round_trip / 2};
}

}  // namespace

Result<LinkMeasurement> measure_link(const Address& peer, const LinkOptions& options, int stop) {
  const Wait wait = Wait::of(options.timeout, stop);
  auto socket = Socket::connect(peer, wait);
  if (!socket.ok()) return socket.status();
  const auto measured = measure(*socket, options, wait);
  if (!measured.ok()) return measured.status().with_context(text("measuring the link to ", peer));
  return measured;
}

}  // namespace ravnest
