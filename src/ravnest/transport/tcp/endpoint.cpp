#include "ravnest/transport/tcp/endpoint.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

#include "ravnest/base/descriptor.h"
#include "ravnest/transport/switchboard.h"
#include "ravnest/transport/tcp/loop.h"

namespace ravnest::transport::tcp {
namespace {

// What an endpoint takes for itself, and the rest of a node now and then: files, a signal's, name lookups.
constexpr std::size_t kOwnDescriptors = 12;

SwitchboardOptions board_options(const Options& options) {
  SwitchboardOptions board{.name = options.name, .peers = {}, .session = options.session, .new_session_id = {}};
  for (const Peer& peer : options.peers) {
    if (!options.probes_only) board.peers.push_back(peer.name);
  }
  board.new_session_id = [device = std::make_shared<std::random_device>()] {
    const std::uint64_t id = (std::uint64_t{(*device)()} << 32) | (*device)();
    return std::max<std::uint64_t>(id, 1);
  };
  return board;
}

Status check_insecure(const Options& options, const Address& address) {
  if (options.insecure != Insecure::kOnLoopback || is_loopback(address.host)) return {};
  return invalid(address, " is not this machine's loopback address: without TLS anyone there could take part in ",
                 options.name,
                 "'s training and read all of it. Leave insecure out, so that it uses the plan's identity");
}

Status check_insecure(const Options& options) {
  if (Status allowed = check_insecure(options, options.listen); !allowed.ok()) return allowed;
  for (const Peer& peer : options.peers) {
    if (peer.address.port == 0) continue;
    if (Status allowed = check_insecure(options, dialled(peer.address)); !allowed.ok()) return allowed;
  }
  return {};
}

class TcpEndpoint final : public NetworkEndpoint {
 public:
  TcpEndpoint(Options options, std::optional<TlsContext> tls, Listener listener)
      : options_(std::move(options)),
        board_(board_options(options_), clock_,
               [this](const std::string& peer, std::uint64_t bytes) { loop_->wake(peer, bytes); }),
        port_(listener.port()),
        loop_(std::make_unique<Loop>(options_, std::move(tls), std::move(listener), board_)) {}
  ~TcpEndpoint() override {
    loop_.reset();
    board_.shut(cancelled(name(), " was ended"));
  }

  const std::string& name() const override { return board_.name(); }
  Status send(const std::string& peer, wire::Message message, Priority priority, Completion done,
              TimePoint deadline) override {
    return board_.send(peer, std::move(message), priority, std::move(done), deadline);
  }
  Result<Event> receive(TimePoint deadline, Channel channel) override { return board_.receive(deadline, channel); }
  void interrupt(Channel channel) override { board_.interrupt(channel); }
  Result<PeerStatistics> statistics(const std::string& peer) const override { return board_.statistics(peer); }
  std::uint16_t port() const override { return port_; }
  std::string host_of(const std::string& peer) const override { return loop_->host_of(peer); }
  Status meet(const std::string& peer, const Address& address) override {
    if (!board_.knows(peer)) return not_found(peer, " is not a peer of ", name());
    if (Status allowed = check_insecure(options_, dialled(address)); !allowed.ok()) return allowed;
    loop_->meet(peer, address);
    return {};
  }
  Status close(TimePoint deadline) override {
    if (closed_.exchange(true)) return {};
    board_.stop_sending();
    Status drained = board_.wait_until_drained(deadline);
    // The farewell itself gets a moment, even where the time is over.
    loop_->say_goodbye(std::max(deadline, clock_.now() + std::chrono::milliseconds(200)));
    board_.shut(cancelled(name(), " is closed"));
    return drained;
  }

 private:
  SystemClock clock_;
  const Options options_;
  Switchboard board_;
  const std::uint16_t port_;
  std::unique_ptr<Loop> loop_;
  std::atomic<bool> closed_ = false;
};

Result<std::optional<TlsContext>> tls_of(const Options& options) {
  if (options.insecure != Insecure::kNo) {
    Status allowed = check_insecure(options);
    return allowed.ok() ? Result<std::optional<TlsContext>>(std::nullopt) : Result<std::optional<TlsContext>>(allowed);
  }
  if (!options.identity) {
    return invalid(options.name, " has no identity; nodes talk over TLS with the identities that `ravnest plan` makes");
  }
  Status sound = identity::check_identity(options.identity->identity, options.identity->authority_certificate,
                                          options.name, std::chrono::system_clock::now());
  if (!sound.ok()) return sound;
  auto tls = TlsContext::create(*options.identity);
  if (!tls.ok()) return tls.status();
  return std::optional(std::move(tls).value());
}

// An endpoint that runs out of descriptors would go on in silence, without the connections that never come about.
Status check_descriptors(const Options& options) {
  const std::size_t needed = kOwnDescriptors + options.peers.size();
  std::vector<Descriptor> reserved;
  while (reserved.size() < needed) {
    reserved.emplace_back(::eventfd(0, EFD_CLOEXEC));
    if (reserved.back().is_open()) continue;
    const std::string reason = std::generic_category().message(errno);
    reserved.clear();
    return unavailable(options.name, " needs ", needed, " more open files: ", reason,
                       ". Raise the limit, as by `ulimit -n 1024`");
  }
  return {};
}

}  // namespace

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos);
}

Result<std::unique_ptr<NetworkEndpoint>> open(Options options) {
  for (const Peer& peer : options.peers) {
    if (peer.name == options.name) return invalid(options.name, " is named as its own peer");
  }
  constexpr std::size_t kMostChunk = wire::kMaxChunkBodyBytes - wire::kChunkHeadBytes;
  if (options.session.chunk_bytes == 0 || options.session.chunk_bytes > kMostChunk) {
    return invalid("chunks of ", options.session.chunk_bytes, " bytes: they have to be of 1 to ", kMostChunk);
  }
  if (options.session.window_bytes == 0 || options.session.queue_bytes == 0) {
    return invalid("the window and the queue of ", options.name, " have to hold something");
  }
  auto tls = tls_of(options);
  if (!tls.ok()) return tls.status();
  if (Status enough = check_descriptors(options); !enough.ok()) return enough;
  auto listener = Listener::open(options.listen.host, options.listen.port);
  if (!listener.ok()) {
    return listener.status().with_context(text(options.name, " cannot listen on ", options.listen));
  }
  return std::unique_ptr<NetworkEndpoint>(
      std::make_unique<TcpEndpoint>(std::move(options), std::move(tls).value(), std::move(listener).value()));
}

}  // namespace ravnest::transport::tcp
