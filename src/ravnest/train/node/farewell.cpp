#include "ravnest/train/node/farewell.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "ravnest/base/mutex.h"
#include "ravnest/base/printable.h"
#include "ravnest/net/port_owner.h"
#include "ravnest/transport/tcp/contact.h"

namespace ravnest::train {
namespace {

namespace tcp = transport::tcp;
using std::chrono::seconds;

// For peers that are not there yet, when none is and when some are.
constexpr Duration kAloneTime = seconds(4);
constexpr Duration kTogetherTime = seconds(8);
// For them when this node was interrupted.
constexpr Duration kInterruptedTime = seconds(1);
// For those who ask whether this node runs to be through with it.
constexpr std::chrono::milliseconds kLockTime(100);
// Between two looks at who is there and who is in a hurry.
constexpr Duration kLookEvery = std::chrono::milliseconds(50);
// For whoever has the address to say who it is.
constexpr Duration kAskingTime = seconds(3);

// Who has heard. Shared with completions, which may come late.
struct Hearing {
  Mutex mutex;
  ConditionVariable changed;
  std::size_t open RAVNEST_GUARDED_BY(mutex) = 0;
};

// Whether this very node listens at its address: it holds its folder, or answers under its own name.
bool runs_already(const tcp::Options& network, const std::filesystem::path& folder) {
  if (plan::FolderLock::is_taken(folder)) return true;
  tcp::Caller caller{network.name, network.plan, network.software, std::nullopt};
  if (network.identity) {
    auto tls = tcp::TlsContext::create(*network.identity);
    if (!tls.ok()) return false;
    caller.tls = std::move(*tls);
  }
  const tcp::Reached reached = tcp::reach(caller, {network.name, network.listen}, Wait::of(kAskingTime));
  // One that refuses to be asked has shown this node's certificate before.
  return reached.trouble == tcp::Trouble::kNone || (caller.tls && reached.trouble == tcp::Trouble::kRefused);
}

}  // namespace

Joined join_network(const tcp::Options& network, const std::filesystem::path& folder) {
  auto opened = tcp::open(network);
  if (opened.ok()) {
    Joined joined{std::unique_ptr<transport::Endpoint>(*std::move(opened)), nullptr};
    if (auto own = plan::FolderLock::take(folder, kLockTime); own.ok()) joined.folder = *std::move(own);
    return joined;
  }
  if (opened.status().code() != Code::kUnavailable) return {opened.status(), nullptr};
  if (runs_already(network, folder)) {
    const std::string owner = port_owner(network.listen.port);
    return {unavailable(network.name, " runs already: it listens at ", network.listen,
                        owner.empty() ? "" : text(", as ", owner),
                        ". Each node may run only once; end that one before you start ", "it again"),
            nullptr};
  }
  tcp::Options elsewhere = network;
  elsewhere.listen.port = 0;
  elsewhere.log = Logger(network.name, Level::kOff);
  auto other = tcp::open(std::move(elsewhere));
  return {opened.status(), other.ok() ? std::move(*other) : nullptr};
}

void tell_why(transport::Endpoint& endpoint, const std::vector<std::string>& nodes, int stage, const Farewell& farewell,
              const std::function<bool()>& hurried) {
  const wire::Failed told{
      .stage = static_cast<std::uint32_t>(stage), .lost = false, .reason = printable_reason(farewell.reason)};
  const auto hearing = std::make_shared<Hearing>();
  for (const std::string& node : nodes) {
    if (node == endpoint.name()) continue;
    {
      const MutexLock lock(hearing->mutex);
      ++hearing->open;
    }
    const auto heard = [hearing](const Status&) {
      const MutexLock lock(hearing->mutex);
      --hearing->open;
      hearing->changed.notify_all();
    };
    if (Status sent = endpoint.send(node, told, transport::Priority::kUrgent, heard); !sent.ok()) heard(sent);
  }
  const auto all_heard = [&]() RAVNEST_REQUIRES(hearing->mutex) { return hearing->open == 0; };
  const auto someone_is_there = [&] {
    for (const std::string& node : nodes) {
      const auto peer = endpoint.statistics(node);
      if (peer.ok() && peer->connections > 0) return true;
    }
    return false;
  };
  const auto worth_waiting = [&] {
    if (farewell.interrupted || (hurried && hurried())) return kInterruptedTime;
    return someone_is_there() ? kTogetherTime : kAloneTime;
  };
  const SystemClock clock;
  const TimePoint start = clock.now();
  for (bool heard = false; !heard;) {
    const TimePoint end = start + worth_waiting();
    const TimePoint now = clock.now();
    if (now >= end) break;
    const MutexLock lock(hearing->mutex);
    heard = hearing->changed.wait_until(hearing->mutex, std::min(end, now + kLookEvery), all_heard);
  }
  (void)endpoint.close(clock.now());
}

void tell_why(Background* background, std::unique_ptr<transport::Endpoint> endpoint,
              const std::vector<std::string>& nodes, int stage, const Farewell& farewell) {
  const std::string name = endpoint->name();
  if (background == nullptr) return tell_why(*endpoint, nodes, stage, farewell);
  background->start(name, [background, own = std::shared_ptr(std::move(endpoint)), nodes, stage, farewell] {
    tell_why(*own, nodes, stage, farewell, [background] { return background->hurried(); });
  });
}

}  // namespace ravnest::train
