#include "ravnest/plan/search/form.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "ravnest/base/words/units.h"
#include "ravnest/plan/search/check_options.h"
#include "ravnest/plan/search/exhaustive.h"
#include "ravnest/plan/search/genetic.h"
#include "ravnest/plan/search/obstacles.h"
#include "ravnest/plan/search/weakest.h"

namespace ravnest::plan {
namespace {

// Up to here looking at every grouping costs no more than evolving one.
constexpr int kCheckedAgainstAll = 10;
// Up to here there is time to look again at the best candidates.
constexpr int kScoredAgainUpTo = 12;
// And up to here at every grouping with all the care that the best ones get, if the model has so few places to cut that
// cutting all orders of all groups takes no more steps than this: seven nodes and 17 places, or five and 96.
constexpr int kExactUpTo = 7;
constexpr double kMostExactSteps = 4e7;

bool all_can_be_exact(const CutViews& views, int nodes) {
  if (nodes > kExactUpTo) return false;
  double stages = 0;               // of all orders of all groups
  double orders_of_this_size = 1;  // all groups' together: nodes! / (nodes - size)!
  for (int size = 1; size <= nodes; ++size) {
    orders_of_this_size *= nodes - size + 1;
    stages += orders_of_this_size * size;
  }
  return 1.5 * stages * views.exact().count() * views.exact().count() <= kMostExactSteps;
}

std::optional<Effort> careful_effort(const CutViews& views, int nodes) {
  if (all_can_be_exact(views, nodes)) return Effort::kExact;
  return nodes <= kScoredAgainUpTo ? std::optional(Effort::kThorough) : std::nullopt;
}

class Former {
 public:
  Former(const ModelCosts& costs, const Pool& pool, const FormOptions& options)
      : costs_(costs),
        pool_(pool),
        options_(options),
        balance_(options.balance.value_or(compute_known(pool) ? Balance::kTime : Balance::kParams)),
        views_(costs),
        scorer_(views_, machines_of(pool), balance_, options.training),
        careful_scorer_(views_, machines_of(pool), balance_, options.training,
                        careful_effort(views_, scorer_.nodes())) {}

  Result<Formation> run() {
    const int count = scorer_.nodes();
    const int smallest = std::min(options_.min_cluster_size, count);
    if (smallest > scorer_.most_stages()) return too_few_stages(smallest);
    std::vector<int> nodes(count);
    std::iota(nodes.begin(), nodes.end(), 0);
    std::optional<Groups> groups = grouped(nodes, smallest);
    // More nodes than the model has stages may not add up to whole clusters: then the smallest stay out.
    std::vector<int> unused;
    while (!groups && static_cast<int>(nodes.size()) > scorer_.most_stages() &&
           static_cast<int>(unused.size()) < kMostLeftOut) {
      leave_out_smallest(nodes, unused);
      groups = grouped(nodes, smallest);
    }
    if (!groups && static_cast<int>(nodes.size()) > scorer_.most_stages()) {
      while (static_cast<int>(nodes.size()) > scorer_.most_stages()) leave_out_smallest(nodes, unused);
      groups = grouped(nodes, smallest);
    }
    if (options_.progress && !options_.progress(1)) return cancelled("planning was interrupted");
    const bool may_spare = balance_ == Balance::kTime && count > 1;
    if (!groups && !(may_spare && !options_.use_all)) return does_not_fit();
    std::optional<Formation> made;
    if (groups) made = formation(*groups, unused);
    if (may_spare) made = without_brakes(std::move(made), nodes, unused, smallest);
    if (!made) return does_not_fit();
    for (const int node : unused) {
      made->notes.push_back(text(describe(pool_, node), " is not used: the model can be cut into at most ",
                                 scorer_.most_stages(), scorer_.most_stages() == 1 ? " stage" : " stages", " (",
                                 what_limits_cuts(costs_), ")"));
    }
    return std::move(*made);
  }

 private:
  static constexpr int kMostLeftOut = 3;
  static constexpr double kWorthSaying = 1.1;
  static constexpr double kWorthSparing = 1.01;

  // By the size of the whole pool: what is left of a larger one is scored in ways that take longer.
  bool all_exact() const { return all_can_be_exact(views_, scorer_.nodes()); }

  std::optional<Groups> grouped(const std::vector<int>& nodes, int smallest) {
    return best_of(candidates_of(nodes, smallest));
  }

  // Groupings that are worth a closer look, the best by the quick score first.
  std::vector<Groups> candidates_of(const std::vector<int>& nodes, int smallest) {
    std::vector<Groups> candidates = evolve(scorer_, nodes, {options_.seed, smallest, options_.progress});
    const bool fits = !candidates.empty() && scorer_.pool(candidates.front()) > 0;
    // A small pool is checked against all groupings; where nothing was found, a middling one too before giving up.
    const int count = static_cast<int>(nodes.size());
    if (count <= (fits ? kCheckedAgainstAll : kExhaustiveLimit)) {
      std::vector<Groups> best = best_groupings(all_exact() ? careful_scorer_ : scorer_, nodes, smallest);
      if (!best.empty()) candidates.insert(candidates.begin(), std::move(best.front()));
    }
    if (count > kScoredAgainUpTo && !candidates.empty()) candidates.resize(1);
    return candidates;
  }

  // Scored with more care than was spent on each of thousands.
  std::optional<Groups> best_of(const std::vector<Groups>& candidates) {
    std::optional<Groups> best;
    double best_fitness = 0;
    for (const Groups& candidate : candidates) {
      Groups groups;
      for (const Group& group : candidate) groups.push_back(careful_scorer_.group(group.members));
      const double fitness = careful_scorer_.pool(groups);
      if (fitness <= best_fitness) continue;
      best_fitness = fitness;
      best = std::move(groups);
    }
    return best;
  }

  void leave_out_smallest(std::vector<int>& nodes, std::vector<int>& unused) const {
    // Of equals the last, so that the first nodes of a pool keep their places.
    const auto smallest = std::min_element(nodes.rbegin(), nodes.rend(), [&](int a, int b) {
      return scorer_.machines()[a].ram_bytes < scorer_.machines()[b].ram_bytes;
    });
    unused.push_back(*smallest);
    nodes.erase(std::next(smallest).base());
  }

  Formation formation(const Groups& groups, std::vector<int> unused) {
    Formation made;
    made.balance = balance_;
    made.unused = std::move(unused);
    std::sort(made.unused.begin(), made.unused.end());
    for (const Group& group : groups) {
      ClusterScore score = careful_scorer_.refine(group, static_cast<int>(groups.size()));
      FormedCluster& cluster = made.clusters.emplace_back();
      for (const int index : score.order) cluster.nodes.push_back(group.members[index]);
      cluster.cutting = std::move(score.cutting);
      if (balance_ == Balance::kParams) note_other_shares(group, score.machines, cluster, made);
    }
    std::sort(made.clusters.begin(), made.clusters.end(), [](const FormedCluster& a, const FormedCluster& b) {
      return *std::min_element(a.nodes.begin(), a.nodes.end()) < *std::min_element(b.nodes.begin(), b.nodes.end());
    });
    return made;
  }

  // What a formation promises, each cluster with the window that it will have.
  double samples_per_s(const Formation& made) const {
    TrainingAssumptions training = options_.training;
    training.clusters = static_cast<int>(made.clusters.size());
    std::vector<ClusterPrediction> predictions;
    for (const FormedCluster& cluster : made.clusters) {
      std::vector<Machine> machines;
      for (const int node : cluster.nodes) machines.push_back(scorer_.machines()[node]);
      const std::vector<StageLoad>& loads = cluster.cutting.loads;
      const int window = window_for(loads, machines, training);
      predictions.push_back(predict_cluster(loads, machines, costs_.batch, training, window));
    }
    return pool_samples_per_s(predictions);
  }

  // By time, what can be done with fewer nodes: exactly for few of them, else by leaving out those that are far weaker
  // than most. Nothing where nobody is to be left out.
  std::optional<Groups> grouped_without_some(const std::vector<int>& nodes, int smallest) {
    return static_cast<int>(nodes.size()) <= kCheckedAgainstAll ? best_of_few(nodes, smallest)
                                                                : best_of_many(nodes, smallest);
  }

  std::optional<Groups> best_of_few(const std::vector<int>& nodes, int smallest) {
    if (all_exact()) return best_of_exact(nodes, smallest);
    std::set<std::vector<int>> sets;
    for (const Groups& groups : best_groupings(scorer_, nodes, smallest, Use::kTheBest)) {
      std::vector<int> members;
      for (const Group& group : groups) members.insert(members.end(), group.members.begin(), group.members.end());
      std::sort(members.begin(), members.end());
      sets.insert(std::move(members));
    }
    sets.erase(nodes);
    std::vector<Groups> candidates;
    for (const std::vector<int>& some : sets) {
      std::optional<Groups> groups = grouped(some, smallest);
      if (groups) candidates.push_back(std::move(*groups));
    }
    return best_of(candidates);
  }

  std::optional<Groups> best_of_exact(const std::vector<int>& nodes, int smallest) {
    for (Groups& groups : best_groupings(careful_scorer_, nodes, smallest, Use::kTheBest)) {
      std::size_t used = 0;
      for (const Group& group : groups) used += group.members.size();
      if (used < nodes.size()) return std::move(groups);
    }
    return std::nullopt;
  }

  // The quick score decides which nodes stay out: a closer look at each set would take seconds.
  std::optional<Groups> best_of_many(const std::vector<int>& nodes, int smallest) {
    std::vector<Groups> best;
    for (const std::vector<int>& stronger : without_the_weakest(scorer_.machines(), nodes)) {
      if (static_cast<int>(stronger.size()) < smallest) continue;
      std::vector<Groups> candidates = candidates_of(stronger, smallest);
      if (candidates.empty() || (!best.empty() && scorer_.pool(candidates.front()) <= scorer_.pool(best.front())))
        continue;
      best = std::move(candidates);
    }
    return best_of(best);
  }

  // The formation itself, or a better one with fewer nodes, where that is asked for; and what is to be said of it.
  std::optional<Formation> without_brakes(std::optional<Formation> all, const std::vector<int>& nodes,
                                          std::vector<int> unused, int smallest) {
    std::optional<Groups> groups = grouped_without_some(nodes, smallest);
    if (!groups) return all;
    std::set<int> left(nodes.begin(), nodes.end());
    for (const Group& group : *groups) {
      for (const int member : group.members) left.erase(member);
    }
    std::vector<std::string> names;
    for (const int node : left) names.push_back(describe(pool_, node));
    unused.insert(unused.end(), left.begin(), left.end());
    Formation fewer = formation(*groups, std::move(unused));
    const double gain = all ? samples_per_s(fewer) / samples_per_s(*all) : 0;
    if (all && (options_.use_all || gain < kWorthSparing)) {
      if (gain >= kWorthSaying)
        all->notes.push_back(text("without ", join(names), " the pool would train ", quantity(gain, ""),
                                  " times as fast; without use_all ", left.size() == 1 ? "it" : "they",
                                  " would be left out"));
      return all;
    }
    fewer.spares.assign(left.begin(), left.end());
    fewer.notes.push_back(
        text(join(names), left.size() == 1 ? " is a spare: " : " are spares: ",
             all ? text("without ", left.size() == 1 ? "it" : "them", " the pool trains ", quantity(gain, ""),
                        " times as fast; use_all keeps ", left.size() == 1 ? "it" : "them")
                 : text("no cluster with ", left.size() == 1 ? "it" : "them", " holds the model")));
    return fewer;
  }

  void note_other_shares(const Group& group, const std::vector<Machine>& machines, const FormedCluster& cluster,
                         Formation& made) const {
    const std::optional<Cutting> shares = cut(views_.fine, machines, Balance::kParams, options_.training);
    if (!shares || shares->cuts == cluster.cutting.cuts) return;
    made.notes.push_back(text("the cluster of ", describe(pool_, group.members.front()),
                              " is cut for the fastest pass that fits, since shares of RAM do not fit"));
  }

  Status too_few_stages(int smallest) const {
    return invalid("the model can be cut into at most ", scorer_.most_stages(),
                   scorer_.most_stages() == 1 ? " stage" : " stages", ", but a cluster must have at least ", smallest,
                   " nodes; a smaller min_cluster_size would help. What stands in the way: ", what_limits_cuts(costs_));
  }

  Status does_not_fit() {
    double ram = 0;
    for (const Machine& machine : scorer_.machines()) ram += machine.ram_bytes;
    const auto needed = static_cast<double>(costs_.memory_bytes);
    if (ram < needed) {
      return invalid("the pool's ", pool_.nodes.size(), pool_.nodes.size() == 1 ? " node has " : " nodes have ",
                     quantity(ram, "B"), " of RAM in all, but training this model takes ", quantity(needed, "B"), "; ",
                     help());
    }
    // What comes nearest: all nodes in one cluster, as far as it has stages for them, with memory balanced.
    std::vector<int> nodes(scorer_.nodes());
    std::iota(nodes.begin(), nodes.end(), 0);
    std::vector<int> unused;
    while (static_cast<int>(nodes.size()) > scorer_.most_stages()) leave_out_smallest(nodes, unused);
    Scorer by_memory(views_, scorer_.machines(), Balance::kMemory, options_.training);
    const Group group = by_memory.group(nodes);
    const ClusterScore score = by_memory.refine(group, 1);
    if (!score.possible) return internal("no way to cut the model into ", nodes.size(), " stages was found");
    const int stages = static_cast<int>(nodes.size());
    double cluster_needs = 0;
    double cluster_has = 0;
    int fullest_stage = 0;
    double fullest_share = 0;
    double processes = 0;
    std::vector<double> needs;
    for (int s = 0; s < stages; ++s) {
      const StageMemory memory =
          stage_memory(score.cutting.loads[s], score.machines[s], {s, stages, stages}, options_.training);
      needs.push_back(static_cast<double>(memory.total()));
      processes += score.machines[s].process_bytes;
      cluster_needs += needs[s];
      cluster_has += score.machines[s].ram_bytes;
      if (needs[s] / score.machines[s].ram_bytes > fullest_share) {
        fullest_share = needs[s] / score.machines[s].ram_bytes;
        fullest_stage = s;
      }
    }
    if (cluster_needs > cluster_has) {
      return invalid("all ", stages, " nodes together in one cluster have ", quantity(cluster_has, "B"),
                     " of RAM, but its stages, with the weights and activations of ", stages,
                     " passes in flight, need ", quantity(cluster_needs, "B"), of_processes(processes), "; ", help());
    }
    const int node = group.members[score.order[fullest_stage]];
    return invalid(describe(pool_, node), " has ", quantity(score.machines[fullest_stage].ram_bytes, "B"),
                   " of RAM, but the smallest stage that it could be given needs ", quantity(needs[fullest_stage], "B"),
                   of_processes(score.machines[fullest_stage].process_bytes), "; ", help());
  }

  static std::string of_processes(double bytes) {
    return bytes > 0 ? text(", of which ", quantity(bytes, "B"), " the process takes without the model") : "";
  }

  static std::string_view help() {
    return "a smaller batch in example_args, more nodes, or nodes with more RAM would help";
  }

  const ModelCosts& costs_;
  const Pool& pool_;
  const FormOptions& options_;
  Balance balance_;
  CutViews views_;
  Scorer scorer_;
  Scorer careful_scorer_;  // of the candidates that are left
};

}  // namespace

Result<Formation> form_clusters(const ModelCosts& costs, const Pool& pool, const FormOptions& options) {
  if (pool.nodes.empty()) return invalid("the pool has no nodes");
  const int nodes = static_cast<int>(pool.nodes.size());
  if (Status status = check_options(options, nodes); !status.ok()) return status;
  if (costs.operators.empty()) return invalid("the model has no operators: there is nothing to train");
  if (std::none_of(costs.stored.begin(), costs.stored.end(), [](const StoredCost& each) { return each.parameter; }))
    return invalid("the model has no parameters: there is nothing to train");
  if (Status status = check_sums(costs, nodes, options.training); !status.ok()) return status;
  return Former(costs, pool, options).run();
}

}  // namespace ravnest::plan
