// Plans with real identities in temporary folders, nodes that answer, and peers that misbehave.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ravnest/base/file.h"
#include "ravnest/base/testing/folders.h"
#include "ravnest/doctor/caller.h"
#include "ravnest/identity/identity.h"
#include "ravnest/net/event_descriptor.h"
#include "ravnest/plan/files/node_files.h"
#include "ravnest/plan/testing/sample_costs.h"
#include "ravnest/transport/tcp/contact.h"
#include "ravnest/transport/tcp/testing/nodes.h"

namespace ravnest::doctor {

namespace tcp = transport::tcp;

inline constexpr Duration kTestTime = std::chrono::seconds(20);
inline constexpr const char* kTestRelease = "0.0.1";

inline Address local(std::uint16_t port) { return {"127.0.0.1", port}; }

// One cluster with a node at each address.
inline plan::Plan plan_at(const std::vector<Address>& addresses, const std::string& id = "test") {
  plan::Plan made;
  made.id = id;
  made.operators = static_cast<int>(addresses.size());
  plan::PlannedCluster& cluster = made.clusters.emplace_back();
  for (const Address& address : addresses) {
    const int node = static_cast<int>(made.pool.nodes.size());
    made.pool.nodes.push_back(plan::machine(8, 10, 1));
    made.pool.nodes.back().address = address;
    plan::PlannedStage& stage = cluster.stages.emplace_back();
    stage.node = node;
    stage.begin = node;
    stage.end = node + 1;
  }
  return made;
}

inline plan::Plan plan_on_free_ports(int nodes) {
  std::vector<Address> addresses;
  for (int i = 0; i < nodes; ++i) addresses.push_back(local(free_port()));
  return plan_at(addresses);
}

inline void put_identity(const plan::PlanHere& here, int node, const identity::StoredIdentity& identity) {
  std::filesystem::create_directories(plan::folder_of(here, node));
  const Status written =
      identity::write_identity(plan::folder_of(here, node), identity.identity, identity.authority_certificate);
  ASSERT_TRUE(written.ok()) << written;
}

// A node_data folder with a plan and the identities of all its nodes, or of `nodes` alone.
class NodeData {
 public:
  explicit NodeData(plan::Plan plan, const std::vector<int>& nodes = {})
      : authority_(tcp::new_authority(plan.id)), here_{folder_.path() / "node_data", std::move(plan)} {
    test::write(here_.node_data / plan::kPlanFile, plan::encode_plan(here_.plan));
    for (int node = 0; node < static_cast<int>(here_.plan.pool.nodes.size()); ++node) {
      if (nodes.empty() || std::ranges::find(nodes, node) != nodes.end()) put_identity(here_, node, identity(node));
    }
  }

  const plan::PlanHere& here() const { return here_; }
  const identity::Authority& authority() const { return authority_; }
  identity::StoredIdentity identity(int node) const { return tcp::identity_of(authority_, plan::node_name(node)); }
  tcp::Caller caller(int node) const { return doctor::caller(here_, node, kTestRelease).value(); }

  // The node, running, with all others as peers.
  tcp::Options options(int node) const {
    tcp::Options options;
    options.name = plan::node_name(node);
    options.plan = here_.plan.id;
    options.software = kTestRelease;
    options.listen = plan::listens_at(here_.plan, node);
    options.identity = identity(node);
    options.log = tcp::no_log();
    for (int other = 0; other < static_cast<int>(here_.plan.pool.nodes.size()); ++other) {
      if (other != node) options.peers.push_back(peer(here_.plan, other));
    }
    return options;
  }
  std::unique_ptr<transport::Endpoint> run(int node) const { return run(options(node)); }
  static std::unique_ptr<transport::Endpoint> run(tcp::Options options) {
    auto opened = tcp::open(std::move(options));
    EXPECT_TRUE(opened.ok()) << opened.status();
    return std::move(opened).value();
  }

 private:
  test::TemporaryFolder folder_;
  identity::Authority authority_;
  plan::PlanHere here_;
};

// Listens on loopback and treats each connection, one at a time, as it is told. Ends with the object.
class FakePeer {
 public:
  using Treat = std::function<void(Socket socket, const Wait& wait)>;

  explicit FakePeer(std::uint16_t port, Treat treat)
      : listener_(Listener::open("127.0.0.1", port).value()), thread_([this, treat = std::move(treat)] {
          const Wait wait = Wait::of(kTestTime, stop_.number());
          for (;;) {
            auto socket = listener_.accept(wait);
            if (!socket.ok()) return;
            treat(std::move(socket).value(), wait);
          }
        }) {}
  FakePeer(const FakePeer&) = delete;
  FakePeer& operator=(const FakePeer&) = delete;
  ~FakePeer() { stop_.raise(); }

 private:
  EventDescriptor stop_;
  Listener listener_;
  std::jthread thread_;
};

// One end of a TLS connection that says frames of the test's choice.
class FrameTalk {
 public:
  FrameTalk(Socket socket, const tcp::TlsContext& tls, tcp::Side side, const Wait& wait)
      : wait_(wait), stream_(tcp::Stream::over(std::move(socket), &tls, side).value()) {}

  bool shake_hands() {
    for (;;) {
      const auto done = stream_.handshake();
      if (!done.ok() || *done) return done.ok();
      if (!stream_.wait(wait_).ok()) return false;
    }
  }
  // The next frame; false at the end of the connection.
  bool next() {
    for (;;) {
      const auto step = reader_.next(stream_);
      if (!step.ok()) return false;
      if (*step == tcp::FrameReader::Step::kFrame) return true;
      if (!stream_.wait(wait_).ok()) return false;
    }
  }
  template <class Body>
  bool say(wire::FrameKind kind, const Body& body) {
    writer_.add(kind, 0, wire::encode(body));
    for (;;) {
      const auto flushed = writer_.flush(stream_);
      if (!flushed.ok() || *flushed) return flushed.ok();
      if (!stream_.wait(wait_).ok()) return false;
    }
  }
  wire::FrameKind kind() const { return reader_.header().kind; }
  ByteSpan body() const { return reader_.body(); }

 private:
  Wait wait_;
  tcp::Stream stream_;
  tcp::FrameReader reader_;
  tcp::FrameWriter writer_;
};

}  // namespace ravnest::doctor
