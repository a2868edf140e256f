#include "ravnest/doctor/examine.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "ravnest/base/mutex.h"
#include "ravnest/doctor/caller.h"
#include "ravnest/doctor/own_checks.h"
#include "ravnest/doctor/peer_checks.h"
#include "ravnest/plan/peers.h"

namespace ravnest::doctor {
namespace {

constexpr std::size_t kMostThreads = 16;
constexpr Duration kLinger = std::chrono::seconds(3);

class Examination {
 public:
  Examination(const plan::PlanHere& here, const ExamineOptions& options,
              const std::function<void(const Finding&)>& on_finding)
      : here_(here), options_(options), on_finding_(on_finding), try_until_(SystemClock().now() + options.wait) {}

  Result<std::vector<Finding>> run(const std::vector<int>& nodes) {
    note({{Severity::kOk, "", text("the plan in ", here_.node_data.string(), " can be read: ", here_.plan.id)}});
    for (const int node : nodes) {
      examine_alone(node);
      if (stopped()) return cancelled("asked to stop");
    }
    examine_peers();
    if (options_.wait > Duration::zero()) (void)wait_for(-1, 0, Wait::of(kLinger, options_.stop));
    if (stopped()) return cancelled("asked to stop");
    const MutexLock lock(mutex_);
    return findings_;
  }

 private:
  bool stopped() const { return wait_for(-1, 0, Wait::of(Duration::zero(), options_.stop)).code() == Code::kCancelled; }

  void note(const std::vector<Finding>& findings) {
    const MutexLock lock(mutex_);
    for (const Finding& finding : findings) {
      findings_.push_back(finding);
      if (on_finding_) on_finding_(finding);
    }
  }

  void examine_alone(int node) {
    const std::string name = plan::node_name(node);
    const std::vector<Finding> identity = check_identity(here_, node, std::chrono::system_clock::now());
    note(identity);
    note(check_address(here_, node, attempt()));
    const auto own = caller(here_, node, options_.software);
    if (!own.ok()) {
      note({{Severity::kWarning, name,
             "its port and its peers were not examined, since its identity is missing or damaged"}});
      return;
    }
    OwnPort port = take_port(
        here_, node, options_.software,
        [this, name](const std::string& asker) {
          const MutexLock lock(heard_mutex_);
          heard_.insert({asker, name});
        },
        attempt());
    note({port.finding});
    listening_.push_back(std::move(port.listening));
    for (const int other : plan::peers_of(here_.plan, node)) {
      const transport::tcp::Peer to = peer(here_.plan, other);
      const auto was_heard = [this, pair = std::pair(to.name, name)] {
        const MutexLock lock(heard_mutex_);
        return heard_.contains(pair);
      };
      checks_.push_back({*own, to, options_.patience, try_until_, was_heard, options_.stop});
    }
  }

  void examine_peers() {
    std::atomic<std::size_t> next = 0;
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < std::min(kMostThreads, checks_.size()); ++i) {
      threads.emplace_back([&] {
        for (std::size_t at = next++; at < checks_.size() && !stopped(); at = next++) {
          const std::vector<Finding> found = check_peer(checks_[at]);
          if (!stopped()) note(found);
        }
      });
    }
  }

  Wait attempt() const { return Wait::of(options_.patience, options_.stop); }

  const plan::PlanHere& here_;
  const ExamineOptions& options_;
  const std::function<void(const Finding&)>& on_finding_;
  const TimePoint try_until_;
  std::vector<PeerCheck> checks_;
  Mutex mutex_;
  std::vector<Finding> findings_ RAVNEST_GUARDED_BY(mutex_);
  Mutex heard_mutex_;
  std::set<std::pair<std::string, std::string>> heard_ RAVNEST_GUARDED_BY(heard_mutex_);  // who has asked whom
  std::vector<std::unique_ptr<transport::Endpoint>> listening_;  // goes first: its threads use what is above
};

}  // namespace

Result<std::vector<Finding>> examine(const plan::PlanHere& here, const std::vector<int>& nodes,
                                     const ExamineOptions& options,
                                     const std::function<void(const Finding&)>& on_finding) {
  return Examination(here, options, on_finding).run(nodes);
}

}  // namespace ravnest::doctor
