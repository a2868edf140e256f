// A stage's part in the rounds between clusters, on a thread of its own: training goes on meanwhile.
//
// The root's averager agrees with those of the other clusters' roots on who takes part (average/agreement.h) and tells
// its stages; each stage's exchanges with the members of its averaging groups and tells the root when it has the
// result; what the agreement commits holds on all stages of all clusters. The thread takes what comes on the averaging
// channel, and interrupts the training channel when there are news for the driver.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ravnest/average/agreement.h"
#include "ravnest/average/averaging.h"
#include "ravnest/average/outer_optimizer.h"
#include "ravnest/average/own_rounds.h"
#include "ravnest/average/stage_exchange.h"
#include "ravnest/base/clock.h"
#include "ravnest/base/log.h"
#include "ravnest/base/mutex.h"
#include "ravnest/base/status.h"
#include "ravnest/codec/codec.h"
#include "ravnest/transport/endpoint.h"
#include "ravnest/transport/outbox.h"

namespace ravnest::average {

struct AveragerOptions {
  int cluster = 0;
  int stage = 0;
  std::vector<std::string> nodes = {};                // of the cluster, by stage
  std::vector<std::string> roots = {};                // by cluster
  std::vector<AveragingPlace> averaging_groups = {};  // of the stage
  codec::Codec codec = {};                            // of the parameters' differences
  OuterOptimizerOptions outer = {};
  // How long clusters are waited for that were never seen, or that do not answer though they live.
  Duration patience = std::chrono::seconds(30);
  // Root: a round holds after which its participants make a checkpoint; told by the averager's thread before any stage
  // of the cluster hears of it. `can`: this cluster's stages take their snapshots.
  std::function<void(const wire::Attempt& attempt, bool can)> on_checkpoint = {};
  Logger log = Logger();
};

struct AveragerStatistics {
  std::uint64_t rounds = 0;  // that held
  std::uint64_t attempts = 0;
  std::uint64_t ignored = 0;           // chunks
  std::uint64_t messages_ignored = 0;  // of other roots
  std::uint64_t bytes = 0;             // of chunks sent, in attempts that are over
  double exchanging_s = 0;             // of the attempts that held, from the beginning to the commit
};

class Averager final : public Averaging {
 public:
  // The endpoint outlives it, and nobody else takes what comes on its averaging channel.
  Averager(AveragerOptions options, transport::Endpoint& endpoint);
  ~Averager() override;

  void begin_with(StageValues values, CarriedState carried) override;
  void give(std::uint64_t round, StageValues values) override;
  RoundState rounds() const override;
  RoundResult take() override;
  void enter(std::uint64_t round, std::uint64_t samples, Capture capture) override;
  void finish(std::uint64_t samples, Capture capture) override;
  void resume() override;

  AveragerStatistics statistics() const;

 private:
  using Actions = Agreement::Actions;

  // An attempt, from its beginning until it holds, is given up or another takes its place.
  struct Open {
    Attempt attempt;
    TimePoint began;
    std::set<int> complete = {};                       // root: the stages that have the result
    std::optional<StageExchange> exchange = {};        // once the stage has given
    std::vector<codec::ErrorFeedback> residuals = {};  // by averaging group, as of the round if this attempt holds
  };

  bool is_root() const { return options_.stage == 0; }
  void request(std::function<void()> request);
  void owe(std::optional<OwnRounds::Debt> debt);
  // -- the thread
  void run();
  void run_requests();
  void handle(transport::Event event);
  void handle(const std::string& peer, const transport::PeerChange& change);
  void handle(const std::string& peer, const wire::Averaging& message);
  void handle(const std::string& peer, wire::RingChunk chunk);
  void hear_stage(int stage, const wire::Averaging& message);
  void hear_root(const wire::Averaging& message);
  void hold(std::uint64_t attempt);
  void carry_out(Actions actions);
  void carry_out(Agreement::Send& send);
  void carry_out(Agreement::Begin& begun);
  void carry_out(Agreement::Holds& holds);
  void carry_out(Agreement::Out& out);
  void tell_root(wire::Averaging message);
  void tell_stages(const wire::Averaging& message);
  void begin(Attempt attempt);
  void exchange();
  std::vector<ExchangePart> parts_to_exchange();
  void begin_more();
  void completed(int stage);
  void miss_the_gone();
  bool is_exchanging() const { return open_ && open_->exchange && !open_->exchange->complete(); }
  void drop_attempt();
  StageValues conclude();
  CarriedState carried() const;
  void lose_patience();
  void look_for_the_unseen();
  void fail(const Status& status);
  void publish();
  std::optional<int> cluster_of_root(const std::string& node) const;

  const AveragerOptions options_;
  transport::Endpoint& endpoint_;
  const SystemClock clock_;

  // Of the thread.
  transport::Outbox outbox_;
  transport::BufferPool pool_;
  std::optional<Agreement> agreement_;  // of the root
  std::deque<Agreement::Action> actions_;
  bool carrying_out_ = false;
  TimePoint quiet_since_;             // root: nothing has changed in the agreement, and no chunk has come
  std::uint64_t changes_ = 0;         // root: of the agreement, when it was last looked at
  std::optional<StageValues> given_;  // to the round that is not held yet
  std::optional<Open> open_;          // the last attempt that was begun
  std::uint64_t last_attempt_ = 0;    // that held
  std::deque<std::pair<std::string, wire::RingChunk>> early_;  // of an attempt that is not begun here
  std::set<std::string> gone_;
  std::optional<OuterOptimizer> outer_;
  std::vector<codec::ErrorFeedback> residuals_;  // by averaging group, as of the last round that held

  mutable Mutex mutex_;
  std::deque<std::function<void()>> requests_ RAVNEST_GUARDED_BY(mutex_);
  bool ending_ RAVNEST_GUARDED_BY(mutex_) = false;
  OwnRounds own_ RAVNEST_GUARDED_BY(mutex_);
  std::optional<RoundResult> result_ RAVNEST_GUARDED_BY(mutex_);  // of the last round that holds, until it is taken
  AveragerStatistics statistics_ RAVNEST_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace ravnest::average
