// The transports that the conformance suite runs over.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <utility>

#include "ravnest/transport/inproc/network.h"
#include "ravnest/transport/tcp/testing/nodes.h"
#include "ravnest/transport/testing/conformance.h"
#include "relay/relay.h"

namespace ravnest::transport {
namespace {

class InprocHarness final : public Harness {
 public:
  std::unique_ptr<Endpoint> open(const std::string& name, std::vector<std::string> peers,
                                 SessionOptions options) override {
    return network_.open(name, std::move(peers), options);
  }
  std::unique_ptr<Endpoint> open_second(const std::string& name, std::vector<std::string> peers,
                                        SessionOptions options) override {
    return open(name, std::move(peers), options);
  }
  void cut(const std::string& a, const std::string& b) override { network_.cut(a, b); }
  void set_parted(const std::string& a, const std::string& b, bool parted) override {
    network_.set_parted(a, b, parted);
  }

 private:
  inproc::Network network_;
};

// Every node dials every other one through a relay of their own.
class TcpHarness final : public Harness {
 public:
  explicit TcpHarness(bool secure) : secure_(secure) {
    for (const std::string name : {"a", "b", "c"}) {
      addresses_[name] = {"127.0.0.1", free_port()};
      if (secure_) identities_.emplace(name, tcp::identity_of(authority_, name));
    }
    for (const auto& [from, own] : addresses_) {
      for (const auto& [to, address] : addresses_) {
        if (from == to) continue;
        auto relay = relay::Relay::open({"127.0.0.1", 0}, address);
        EXPECT_TRUE(relay.ok()) << relay.status();
        relays_.emplace(std::pair(from, to), std::move(relay).value());
      }
    }
  }

  std::unique_ptr<Endpoint> open(const std::string& name, std::vector<std::string> peers,
                                 SessionOptions session) override {
    return open_at(addresses_[name], name, peers, session);
  }
  std::unique_ptr<Endpoint> open_second(const std::string& name, std::vector<std::string> peers,
                                        SessionOptions session) override {
    return open_at({"127.0.0.1", 0}, name, peers, session);
  }
  void cut(const std::string& a, const std::string& b) override {
    relays_.at({a, b}).cut();
    relays_.at({b, a}).cut();
  }
  void set_parted(const std::string& a, const std::string& b, bool parted) override {
    relays_.at({a, b}).set_silent(parted);
    relays_.at({b, a}).set_silent(parted);
  }

 private:
  std::unique_ptr<Endpoint> open_at(const Address& listen, const std::string& name,
                                    const std::vector<std::string>& peers, SessionOptions session) {
    tcp::Options options;
    options.name = name;
    options.plan = "test";
    options.software = "0";
    options.listen = listen;
    options.session = session;
    options.log = tcp::no_log();
    options.insecure = secure_ ? tcp::Insecure::kNo : tcp::Insecure::kOnLoopback;
    if (secure_) options.identity = identities_.at(name);
    for (const std::string& peer : peers) options.peers.push_back({peer, relays_.at({name, peer}).address()});
    auto endpoint = tcp::open(std::move(options));
    EXPECT_TRUE(endpoint.ok()) << endpoint.status();
    return std::move(endpoint).value();
  }

  const bool secure_;
  identity::Authority authority_ = tcp::new_authority();
  std::map<std::string, Address> addresses_;
  std::map<std::string, identity::StoredIdentity> identities_;
  std::map<std::pair<std::string, std::string>, relay::Relay> relays_;
};

INSTANTIATE_TEST_SUITE_P(Transports, Conformance,
                         ::testing::Values(HarnessKind{"Inproc", [] { return std::make_unique<InprocHarness>(); }},
                                           HarnessKind{"Tcp", [] { return std::make_unique<TcpHarness>(false); }},
                                           HarnessKind{"Tls", [] { return std::make_unique<TcpHarness>(true); }}),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace ravnest::transport
