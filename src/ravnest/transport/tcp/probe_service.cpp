#include "ravnest/transport/tcp/probe_service.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "ravnest/base/descriptor.h"
#include "ravnest/transport/tcp/contact.h"

namespace ravnest::transport::tcp {
namespace {

constexpr Duration kDialBackTime = std::chrono::seconds(5);
// Answers that nobody reads.
constexpr std::size_t kMostUnread = 4 << 20;
constexpr std::array<std::byte, wire::kMaxProbeDataBytes> kZeros{};

std::int64_t wall_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Descriptor event() { return Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

}  // namespace

struct ProbeService::Shared {
  Descriptor stop = event();
  Descriptor ready = event();
  std::mutex mutex;
  bool busy = false;
  std::vector<Answer> answers;

  void put(Answer answer) {
    const std::lock_guard lock(mutex);
    answers.push_back(std::move(answer));
    (void)::eventfd_write(ready.number(), 1);
  }
};

ProbeService::ProbeService(const Options& options, const TlsContext* tls)
    : options_(options), tls_(tls), shared_(std::make_shared<Shared>()) {}

ProbeService::~ProbeService() { (void)::eventfd_write(shared_->stop.number(), 1); }

int ProbeService::ready() const { return shared_->ready.number(); }

std::vector<ProbeService::Answer> ProbeService::take() {
  eventfd_t ignored = 0;
  (void)::eventfd_read(shared_->ready.number(), &ignored);
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->answers, {});
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
  std::vector<wire::Slice> data;
  if (probe->kind == wire::ProbeKind::kDownload) {
    data.push_back({ByteSpan(kZeros).first(std::min<std::size_t>(probe->size, kZeros.size())), nullptr});
  }
  connection.writer.add(wire::FrameKind::kProbeAnswer, 0,
                        wire::encode(wire::ProbeAnswer{probe->number, wall_ns(), true, ""}), std::move(data));
  return {};
}

void ProbeService::dial_back(const Connection& connection, std::uint64_t number) {
  const std::uint64_t id = connection.id;
  const auto refuse = [&](std::string why) { shared_->put({id, {number, wall_ns(), false, std::move(why)}}); };
  const auto peer = std::ranges::find(options_.peers, connection.asker, &Peer::name);
  if (peer == options_.peers.end()) return refuse(text(connection.asker, " is not a peer of ", options_.name));
  {
    const std::lock_guard lock(shared_->mutex);
    if (std::exchange(shared_->busy, true)) return refuse(text(options_.name, " is dialling back already; ask again"));
  }
  Caller caller{options_.name, options_.plan, options_.software, tls_ == nullptr ? std::nullopt : std::optional(*tls_)};
  try {
    std::thread([shared = shared_, caller = std::move(caller), to = *peer, id, number] {
      sigset_t all;
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
      const Reached reached = reach(caller, to, Wait::of(kDialBackTime, shared->stop.number()));
      {
        const std::lock_guard lock(shared->mutex);
        shared->busy = false;
      }
      shared->put({id, {number, wall_ns(), reached.status.ok(), reached.status.message().substr(0, 2000)}});
    }).detach();
  } catch (const std::system_error& error) {
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->busy = false;
    }
    refuse(text(options_.name, " cannot start a thread: ", error.what()));
  }
}

}  // namespace ravnest::transport::tcp
