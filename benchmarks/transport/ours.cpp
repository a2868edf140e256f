// ravnest's endpoints: messages with one tensor each, checksums and acknowledgements included.
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "pair.h"
#include "ravnest/identity/identity.h"
#include "ravnest/net/socket.h"
#include "ravnest/transport/inproc/network.h"
#include "ravnest/transport/tcp/endpoint.h"

namespace ravnest::benchmark {
namespace {

using transport::Endpoint;

TimePoint patiently() { return SystemClock().now() + std::chrono::seconds(60); }

void require(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}

class EndpointPair : public Pair {
 public:
  void stream(std::size_t size, int count) override {
    const wire::Message message = message_of(size);
    std::thread receiver([&] {
      for (int i = 0; i < count; ++i) take(*far_);
      require(far_->send("near", wire::Closed{}, transport::Priority::kNormal));
    });
    for (int i = 0; i < count; ++i) {
      require(near_->send("far", message, transport::Priority::kNormal, {}, patiently()));
    }
    take(*near_);
    receiver.join();
  }

  void round_trip(std::size_t size) override {
    if (!echo_.joinable()) {
      echo_ = std::thread([this] {
        while (auto message = take(*far_)) {
          if (std::holds_alternative<wire::Closed>(*message)) return;
          require(far_->send("near", std::move(*message), transport::Priority::kNormal, {}, patiently()));
        }
      });
    }
    require(near_->send("far", message_of(size), transport::Priority::kNormal, {}, patiently()));
    take(*near_);
  }

  ~EndpointPair() override {
    if (!echo_.joinable()) return;
    require(near_->send("far", wire::Closed{}, transport::Priority::kNormal, {}, patiently()));
    echo_.join();
  }

 protected:
  std::unique_ptr<transport::inproc::Network> network_;  // outlives its endpoints
  std::unique_ptr<Endpoint> near_;
  std::unique_ptr<Endpoint> far_;

 private:
  wire::Message message_of(std::size_t size) {
    if (data_.size() != size) data_ = slice_of(std::vector<std::byte>(size, std::byte{1}));
    wire::Forward forward;
    forward.tensors.push_back(
        {0, false, {DType::kUInt8, codec::CodecKind::kNone, {static_cast<std::int64_t>(size)}, data_}});
    return forward;
  }

  static std::optional<wire::Message> take(Endpoint& endpoint) {
    for (;;) {
      auto event = endpoint.receive(patiently());
      require(event.status());
      if (auto* message = std::get_if<wire::Message>(&event->what)) return std::move(*message);
    }
  }

  Slice data_;
  std::thread echo_;
};

class TcpPair final : public EndpointPair {
 public:
  explicit TcpPair(bool tls) {
    std::optional<identity::Authority> authority;
    if (tls) authority.emplace(identity::Authority::create("bench").value());
    const Address near{"127.0.0.1", Listener::open("127.0.0.1", 0)->port()};
    const Address far{"127.0.0.1", Listener::open("127.0.0.1", 0)->port()};
    const auto open = [&](const std::string& name, const Address& own, const std::string& peer, const Address& other) {
      transport::tcp::Options options;
      options.name = name;
      options.plan = "bench";
      options.listen = own;
      options.peers = {{peer, other}};
      options.insecure = tls ? transport::tcp::Insecure::kNo : transport::tcp::Insecure::kOnLoopback;
      if (tls) options.identity = identity::StoredIdentity{authority->issue(name).value(), authority->certificate()};
      auto endpoint = transport::tcp::open(std::move(options));
      require(endpoint.status());
      return std::move(endpoint).value();
    };
    near_ = open("near", near, "far", far);
    far_ = open("far", far, "near", near);
  }
};

class InprocPair final : public EndpointPair {
 public:
  InprocPair() {
    network_ = std::make_unique<transport::inproc::Network>();
    near_ = network_->open("near", {"far"});
    far_ = network_->open("far", {"near"});
  }
};

}  // namespace

std::unique_ptr<Pair> ravnest_plain() { return std::make_unique<TcpPair>(false); }
std::unique_ptr<Pair> ravnest_tls() { return std::make_unique<TcpPair>(true); }
std::unique_ptr<Pair> ravnest_inproc() { return std::make_unique<InprocPair>(); }

}  // namespace ravnest::benchmark
