// Members of a group for tests: endpoints in one process or over TLS, and a thread for each member's calls.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ravnest/collective/group.h"
#include "ravnest/transport/inproc/network.h"
#include "ravnest/transport/tcp/testing/nodes.h"
#include "ravnest/transport/testing/messages.h"

namespace ravnest::collective {

// Opens the endpoints of members, all of which are peers of each other.
class Nodes {
 public:
  virtual ~Nodes() = default;
  virtual std::unique_ptr<transport::Endpoint> open(std::size_t member, transport::SessionOptions options = {}) = 0;

  std::vector<std::unique_ptr<transport::Endpoint>> open_all(transport::SessionOptions options = {}) {
    std::vector<std::unique_ptr<transport::Endpoint>> endpoints;
    for (std::size_t i = 0; i < names.size(); ++i) endpoints.push_back(open(i, options));
    return endpoints;
  }

  const std::vector<std::string> names;

 protected:
  explicit Nodes(std::vector<std::string> members) : names(std::move(members)) {}

  std::vector<std::string> peers_of(std::size_t member) const {
    std::vector<std::string> peers = names;
    peers.erase(peers.begin() + static_cast<std::ptrdiff_t>(member));
    return peers;
  }
};

inline std::vector<std::string> first_letters(std::size_t members) {
  std::vector<std::string> letters;
  for (std::size_t i = 0; i < members; ++i) letters.emplace_back(1, static_cast<char>('a' + i));
  return letters;
}

class InprocNodes final : public Nodes {
 public:
  explicit InprocNodes(std::size_t members) : InprocNodes(first_letters(members)) {}
  explicit InprocNodes(std::vector<std::string> members) : Nodes(std::move(members)) {}
  std::unique_ptr<transport::Endpoint> open(std::size_t member, transport::SessionOptions options) override {
    return network.open(names[member], peers_of(member), options);
  }

  transport::inproc::Network network;
};

class TlsNodes final : public Nodes {
 public:
  explicit TlsNodes(std::size_t members) : TlsNodes(first_letters(members)) {}
  explicit TlsNodes(std::vector<std::string> members) : Nodes(std::move(members)) {
    for (const std::string& name : names) addresses_[name] = {"127.0.0.1", free_port()};
  }
  std::unique_ptr<transport::Endpoint> open(std::size_t member, transport::SessionOptions session) override {
    transport::tcp::Options options;
    options.name = names[member];
    options.plan = "test";
    options.software = "0";
    options.listen = addresses_[names[member]];
    options.session = session;
    options.log = transport::tcp::no_log();
    options.identity = transport::tcp::identity_of(authority_, names[member]);
    for (const std::string& peer : peers_of(member)) options.peers.push_back({peer, addresses_[peer]});
    auto endpoint = transport::tcp::open(std::move(options));
    EXPECT_TRUE(endpoint.ok()) << endpoint.status();
    return std::move(endpoint).value();
  }

 private:
  identity::Authority authority_ = transport::tcp::new_authority();
  std::map<std::string, Address> addresses_;
};

// Waits until that many peers are up; false where they are not in time.
inline bool has_all_up(transport::Endpoint& endpoint, std::size_t peers) {
  std::set<std::string> up;
  while (up.size() < peers) {
    const auto event = endpoint.receive(transport::patiently());
    if (!event.ok()) return false;
    const auto* change = std::get_if<transport::PeerChange>(&event->what);
    if (change != nullptr && change->state == transport::PeerState::kUp) up.insert(event->peer);
  }
  return true;
}

// The same test over each transport: INSTANTIATE_TEST_SUITE_P(Transports, GroupOver, over_each_transport(),
// name_of_kind)
struct Kind {
  const char* name;
  std::function<std::unique_ptr<Nodes>(std::size_t)> make;

  friend std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }
};

inline auto over_each_transport() {
  return testing::Values(Kind{"Inproc", [](std::size_t n) { return std::make_unique<InprocNodes>(n); }},
                         Kind{"Tls", [](std::size_t n) { return std::make_unique<TlsNodes>(n); }});
}
inline std::string name_of_kind(const testing::TestParamInfo<Kind>& kind) { return kind.param.name; }

// What each member's thread does, all at the same time; returns when all are done.
inline void at_once(std::size_t members, const std::function<void(std::size_t)>& what) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < members; ++i) threads.emplace_back([&, i] { what(i); });
  for (std::thread& each : threads) each.join();
}

}  // namespace ravnest::collective
