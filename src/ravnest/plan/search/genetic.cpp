#include "ravnest/plan/search/genetic.h"

#include <algorithm>
#include <random>
#include <set>

#include "ravnest/plan/search/layouts.h"

namespace ravnest::plan {
namespace {

struct Candidate {
  Groups groups;
  double fitness = 0;
};

class Evolution {
 public:
  Evolution(Scorer& scorer, const std::vector<int>& nodes, const GeneticOptions& options)
      : scorer_(scorer),
        nodes_(nodes),
        options_(options),
        count_(static_cast<int>(nodes.size())),
        smallest_(options.min_cluster_size),
        random_(options.seed),
        steps_before_(scorer.steps()) {}

  std::vector<Groups> run() {
    if (count_ < smallest_) return {};
    found();
    const int population = static_cast<int>(population_.size());
    const int generations = 160;
    int stalled = 0;
    for (int generation = 0; generation < generations && stalled < kStalled && spent() < kMostSteps / 2; ++generation) {
      const double before = population_.front().fitness;
      std::vector<Candidate> next = elite(kElite);
      for (int i = 0; i < population / 8; ++i) next.push_back(newcomer());
      while (static_cast<int>(next.size()) < population) next.push_back(child());
      population_ = std::move(next);
      sort();
      stalled = population_.front().fitness > before ? 0 : stalled + 1;
      if (!report(0.8 * (generation + 1) / generations)) break;
    }
    if (!ended_) improve(population_.front());
    report(1);
    std::vector<Groups> best;
    for (Candidate& each : elite(kReturned)) best.push_back(std::move(each.groups));
    return best;
  }

 private:
  static constexpr std::size_t kElite = 4;
  static constexpr std::size_t kReturned = 12;
  static constexpr int kLargePool = 64;
  static constexpr double kMostSteps = 3e8;  // a few seconds
  static constexpr int kStalled = 50;        // generations without a better candidate

  // The best, of equals one.
  std::vector<Candidate> elite(std::size_t most) const {
    std::vector<Candidate> best;
    for (const Candidate& each : population_) {
      if (best.empty() || each.fitness < best.back().fitness) best.push_back(each);
      if (best.size() == most) break;
    }
    return best;
  }

  // One of the first candidates or today's, much changed: keeps the population from becoming all alike.
  Candidate newcomer() {
    Candidate made = chance(50) ? founders_[below(static_cast<int>(founders_.size()))] : parent();
    const int changes = 2 + below(std::min(count_, 12));
    for (int i = 0; i < changes; ++i) mutate(made.groups);
    made.fitness = scorer_.pool(made.groups);
    return made;
  }

  double spent() const { return scorer_.steps() - steps_before_; }

  bool report(double share) {
    ended_ = ended_ || (options_.progress && !options_.progress(share));
    return !ended_;
  }

  int below(int bound) { return static_cast<int>(random_() % static_cast<std::uint64_t>(bound)); }
  bool chance(int percent) { return below(100) < percent; }

  void sort() {
    std::stable_sort(population_.begin(), population_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.fitness > b.fitness; });
  }

  Candidate candidate(Layout groups) {
    Candidate made;
    for (std::vector<int>& members : groups) {
      std::sort(members.begin(), members.end());
      made.groups.push_back(scorer_.group(std::move(members)));
    }
    made.fitness = scorer_.pool(made.groups);
    return made;
  }

  // Numbers of clusters to begin with: all for a small pool, ever wider steps for a large one, from many small clusters
  // to few large ones. For large pools only until clusters fit and a few more: longer ones are rarely better.
  void found() {
    const int most = count_ / smallest_;
    const int fewest = std::max(1, (count_ + scorer_.most_stages() - 1) / std::max(1, scorer_.most_stages()));
    int fitting = 0;
    for (int clusters = most; clusters >= std::min(most, fewest);) {
      for (Layout& groups : layouts(nodes_, scorer_.machines(), clusters, smallest_))
        population_.push_back(candidate(std::move(groups)));
      const bool fits =
          std::any_of(population_.begin(), population_.end(), [](const Candidate& c) { return c.fitness > 0; });
      if (fits && count_ > kLargePool && ++fitting > 6) break;
      clusters = count_ <= 24 ? clusters - 1 : std::min(clusters - 1, clusters * 4 / 5);
    }
    sort();
    founders_.assign(population_.begin(), population_.begin() + std::min<std::ptrdiff_t>(16, std::ssize(population_)));
    const std::size_t wanted = count_ <= 16 ? 64 : 24;
    if (population_.size() > wanted) population_.resize(wanted);
    while (population_.size() < wanted) {
      Candidate made = population_[below(static_cast<int>(population_.size()))];
      for (int i = 0; i < 3; ++i) mutate(made.groups);
      made.fitness = scorer_.pool(made.groups);
      population_.push_back(std::move(made));
    }
    sort();
  }

  const Candidate& parent() {
    const int size = static_cast<int>(population_.size());
    return population_[std::min(below(size), below(size))];
  }

  Candidate child() {
    Candidate made;
    if (chance(40)) {
      const Candidate& a = parent();
      const Candidate& b = parent();
      made.groups = crossed(a.groups, b.groups);
    } else {
      made.groups = parent().groups;
    }
    const int changes = 1 + below(3);
    for (int i = 0; i < changes; ++i) mutate(made.groups);
    made.fitness = scorer_.pool(made.groups);
    return made;
  }

  // Some groups of `b` as they are; of `a` what is left of its groups. Whoever then stands in a group too small joins
  // the smallest groups.
  Groups crossed(const Groups& a, const Groups& b) {
    std::set<int> taken;
    Groups groups;
    // Of a large pool only a few, or nearly every group would have to be scored anew.
    const int share = count_ <= kLargePool ? 20 + below(61) : 1 + below(5);
    for (const Group& group : b) {
      if (!chance(share)) continue;
      groups.push_back(group);
      taken.insert(group.members.begin(), group.members.end());
    }
    std::vector<int> homeless;
    for (const Group& group : a) {
      std::vector<int> left;
      for (const int member : group.members) {
        if (!taken.contains(member)) left.push_back(member);
      }
      if (left.size() == group.members.size()) {
        groups.push_back(group);
      } else if (static_cast<int>(left.size()) >= smallest_) {
        groups.push_back(scorer_.group(std::move(left)));
      } else {
        homeless.insert(homeless.end(), left.begin(), left.end());
      }
    }
    settle(groups, std::move(homeless));
    return groups;
  }

  void settle(Groups& groups, std::vector<int> homeless) {
    while (static_cast<int>(homeless.size()) >= smallest_ && (groups.empty() || chance(70))) {
      std::vector<int> members(homeless.end() - smallest_, homeless.end());
      homeless.resize(homeless.size() - smallest_);
      std::sort(members.begin(), members.end());
      groups.push_back(scorer_.group(std::move(members)));
    }
    for (const int node : homeless) {
      auto smallest = std::min_element(groups.begin(), groups.end(), [](const Group& x, const Group& y) {
        return x.members.size() < y.members.size();
      });
      *smallest = with(*smallest, node);
    }
  }

  Group with(const Group& group, int node) {
    std::vector<int> members = group.members;
    members.insert(std::lower_bound(members.begin(), members.end(), node), node);
    return scorer_.group(std::move(members));
  }

  Group without(const Group& group, int node) {
    std::vector<int> members = group.members;
    std::erase(members, node);
    return scorer_.group(std::move(members));
  }

  int slowest(const Groups& groups) {
    const int clusters = static_cast<int>(groups.size());
    int worst = 0;
    double worst_s = -1;
    for (int g = 0; g < clusters; ++g) {
      const ClusterScore& score = scorer_.score(groups[g], clusters);
      const double seconds = score.fits() ? scorer_.period_s(groups[g], clusters) : 1e30 * (1 + score.cutting.fullest);
      if (seconds > worst_s) {
        worst = g;
        worst_s = seconds;
      }
    }
    return worst;
  }

  void mutate(Groups& groups) {
    const int kind = below(100);
    const int target = chance(60) ? slowest(groups) : below(static_cast<int>(groups.size()));
    if (kind < 10) return split(groups, target);
    if (groups.size() < 2) return;
    int other = below(static_cast<int>(groups.size()) - 1);
    if (other >= target) ++other;
    if (kind < 20) return merge(groups, target, other);
    if (kind < 55) return swap(groups, target, other);
    if (chance(50)) return move(groups, target, other);
    move(groups, other, target);
  }

  int any_member(const Group& group) { return group.members[below(static_cast<int>(group.members.size()))]; }

  void split(Groups& groups, int target) {
    std::vector<int> members = groups[target].members;
    const int size = static_cast<int>(members.size());
    if (size < 2 * smallest_) return;
    for (int i = size - 1; i > 0; --i) std::swap(members[i], members[below(i + 1)]);
    const int left = smallest_ + below(size - 2 * smallest_ + 1);
    std::vector<int> first(members.begin(), members.begin() + left);
    std::vector<int> second(members.begin() + left, members.end());
    std::sort(first.begin(), first.end());
    std::sort(second.begin(), second.end());
    groups[target] = scorer_.group(std::move(first));
    groups.push_back(scorer_.group(std::move(second)));
  }

  void merge(Groups& groups, int a, int b) {
    std::vector<int> members = groups[a].members;
    members.insert(members.end(), groups[b].members.begin(), groups[b].members.end());
    if (static_cast<int>(members.size()) > scorer_.most_stages()) return;
    std::sort(members.begin(), members.end());
    groups[a] = scorer_.group(std::move(members));
    groups.erase(groups.begin() + b);
  }

  void swap(Groups& groups, int a, int b) { exchange(groups, a, b, any_member(groups[a]), any_member(groups[b])); }

  void exchange(Groups& groups, int a, int b, int from_a, int from_b) {
    std::vector<int> first = groups[a].members;
    std::vector<int> second = groups[b].members;
    *std::find(first.begin(), first.end(), from_a) = from_b;
    *std::find(second.begin(), second.end(), from_b) = from_a;
    std::sort(first.begin(), first.end());
    std::sort(second.begin(), second.end());
    groups[a] = scorer_.group(std::move(first));
    groups[b] = scorer_.group(std::move(second));
  }

  void move(Groups& groups, int from, int to) {
    if (static_cast<int>(groups[from].members.size()) <= smallest_) return;
    const int node = any_member(groups[from]);
    groups[from] = without(groups[from], node);
    groups[to] = with(groups[to], node);
  }

  // The best neighbour by a move or swap of the slowest group, again and again.
  void improve(Candidate& best) {
    int budget = 20000;
    const auto out_of_time = [&] { return budget <= 0 || spent() > kMostSteps; };
    for (bool improved = true; improved && !out_of_time();) {
      improved = false;
      const int target = slowest(best.groups);
      const std::vector<int> members = best.groups[target].members;
      for (int other = 0; other < static_cast<int>(best.groups.size()) && !improved && !out_of_time(); ++other) {
        if (other == target) continue;
        if (!report(0.9)) return;
        const std::vector<int> others = best.groups[other].members;
        for (std::size_t i = 0; i < members.size() && !improved && !out_of_time(); ++i) {
          for (std::size_t j = 0; j < others.size() && !improved; ++j) {
            --budget;
            Candidate tried{best.groups, 0};
            exchange(tried.groups, target, other, members[i], others[j]);
            improved = keep(best, tried);
          }
        }
        for (const int node : others) {
          if (improved || static_cast<int>(others.size()) <= smallest_) break;
          improved = keep_moved(best, other, target, node, budget);
        }
        for (const int node : members) {
          if (improved || static_cast<int>(members.size()) <= smallest_) break;
          improved = keep_moved(best, target, other, node, budget);
        }
      }
    }
  }

  bool keep_moved(Candidate& best, int from, int to, int node, int& budget) {
    --budget;
    Candidate tried{best.groups, 0};
    tried.groups[from] = without(tried.groups[from], node);
    tried.groups[to] = with(tried.groups[to], node);
    return keep(best, tried);
  }

  bool keep(Candidate& best, Candidate& tried) {
    tried.fitness = scorer_.pool(tried.groups);
    if (tried.fitness <= best.fitness) return false;
    best = std::move(tried);
    return true;
  }

  Scorer& scorer_;
  const std::vector<int>& nodes_;
  const GeneticOptions& options_;
  int count_;
  int smallest_;
  std::mt19937_64 random_;
  double steps_before_;
  std::vector<Candidate> population_;  // the fittest first
  std::vector<Candidate> founders_;
  bool ended_ = false;  // by whom progress is reported to
};

}  // namespace

std::vector<Groups> evolve(Scorer& scorer, const std::vector<int>& nodes, const GeneticOptions& options) {
  return Evolution(scorer, nodes, options).run();
}

}  // namespace ravnest::plan
