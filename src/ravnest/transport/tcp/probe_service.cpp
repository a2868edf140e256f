#include "ravnest/transport/tcp/probe_service.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "ravnest/transport/tcp/contact.h"

namespace ravnest::transport::tcp {
namespace {

constexpr Duration kDialBackTime = std::chrono::seconds(5);
// At a time. All of a plan's nodes may be examined at once, and each asks all of its peers.
constexpr int kMostDiallings = 16;
// Of an answer's text; a frame holds more.
constexpr std::size_t kMostWords = 2000;
// Answers that nobody reads.
constexpr std::size_t kMostUnread = 4 << 20;
constexpr std::array<std::byte, wire::kMaxProbeDataBytes> kZeros{};

std::int64_t wall_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::vector<ProbeService::Answer> ProbeService::take() {
  std::vector<Answer> answers = diallings_.take();
  under_way_ -= static_cast<int>(answers.size());
  return answers;
}

Status ProbeService::answer(Connection& connection) {
  if (connection.reader.header().kind != wire::FrameKind::kProbe) return corrupt("only questions can be asked here");
  const auto probe = wire::decode_probe(connection.reader.body());
  if (!probe.ok()) return probe.status();
  if (connection.writer.pending_bytes() > kMostUnread) return unavailable("it asks and does not read the answers");
  if (probe->kind == wire::ProbeKind::kDialBack) {
    dial_back(connection, probe->number);
    return {};
  }
  std::vector<Slice> data;
  if (probe->kind == wire::ProbeKind::kDownload) {
    data.push_back({ByteSpan(kZeros).first(std::min<std::size_t>(probe->size, kZeros.size())), nullptr});
  }
  connection.writer.add(wire::FrameKind::kProbeAnswer, 0,
                        wire::encode(wire::ProbeAnswer{probe->number, wall_ns(), true, ""}), std::move(data));
  return {};
}

void ProbeService::dial_back(Connection& connection, std::uint64_t number) {
  const auto refuse = [&](const std::string& why) RAVNEST_REQUIRES(connection.in_use) {
    connection.writer.add(wire::FrameKind::kProbeAnswer, 0,
                          wire::encode(wire::ProbeAnswer{number, wall_ns(), false, why}));
  };
  const auto peer = std::ranges::find(options_.peers, connection.asker, &Peer::name);
  if (peer == options_.peers.end()) return refuse(text(connection.asker, " is not a peer of ", options_.name));
  if (under_way_ == kMostDiallings)
    return refuse(text(options_.name, " is dialling back to many others already; ask again"));
  Caller caller{options_.name, options_.plan, options_.software, tls_ == nullptr ? std::nullopt : std::optional(*tls_)};
  const auto dial = [caller = std::move(caller), to = *peer, id = connection.id, number](int stop) {
    const Reached reached = reach(caller, to, Wait::of(kDialBackTime, stop));
    return Answer{id, {number, wall_ns(), reached.status.ok(), reached.status.message().substr(0, kMostWords)}};
  };
  if (Status started = diallings_.start(dial); !started.ok()) return refuse(started.message());
  ++under_way_;
}

}  // namespace ravnest::transport::tcp
