#include "ravnest/plan/search/arrange.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "ravnest/plan/predict/stage_cost.h"

namespace ravnest::plan {
namespace {

// best(mask, end): how dear the dearest of the first stages is at best, when the machines of `mask` run them up to
// position `end`, in whatever order.
class ArrangementSearch {
 public:
  ArrangementSearch(const Segments& segments, std::span<const Machine> machines, Balance balance,
                    const TrainingAssumptions& options)
      : segments_(segments),
        machines_(machines),
        balance_(balance),
        options_(options),
        stages_(static_cast<int>(machines.size())),
        places_(segments.count() + 1),
        best_((std::size_t{1} << stages_) * places_, kImpossible),
        from_(best_.size()) {}

  std::optional<Arrangement> run() {
    const unsigned everyone = (1U << stages_) - 1;
    best_[0] = 0;
    for (unsigned mask = 0; mask < everyone; ++mask) {
      for (int machine = 0; machine < stages_; ++machine) {
        if ((mask >> machine & 1) == 0 && !same_as_earlier(mask, machine)) extend(mask, machine);
      }
    }
    if (best_[index(everyone, segments_.count())] == kImpossible) return std::nullopt;
    return read_off(everyone);
  }

 private:
  struct From {
    std::int16_t begin = -1;
    std::int8_t machine = -1;
  };

  std::size_t index(unsigned mask, int end) const { return static_cast<std::size_t>(mask) * places_ + end; }

  // Of equal machines that are still free, only the first need be tried.
  bool same_as_earlier(unsigned mask, int machine) const {
    for (int earlier = 0; earlier < machine; ++earlier) {
      if ((mask >> earlier & 1) == 0 && machines_[earlier] == machines_[machine]) return true;
    }
    return false;
  }

  void extend(unsigned mask, int machine) {
    const int stage = std::popcount(mask);
    const unsigned with = mask | 1U << machine;
    const int first_end = stage + 1 == stages_ ? segments_.count() : 1;
    for (int begin = 0; begin < segments_.count(); ++begin) {
      const double so_far = best_[index(mask, begin)];
      if (so_far == kImpossible) continue;
      for (int end = std::max(begin + 1, first_end); end < places_; ++end) {
        double& known = best_[index(with, end)];
        if (so_far >= known || !segments_.owns_parameters(begin, end)) continue;
        const double worst = std::max(so_far, cost(begin, end, machine, stage, known));
        if (worst >= known) continue;
        known = worst;
        from_[index(with, end)] = {static_cast<std::int16_t>(begin), static_cast<std::int8_t>(machine)};
      }
    }
  }

  double cost(int begin, int end, int machine, int stage, double enough) const {
    if (balance_ == Balance::kTime)
      return busy_s(segments_, begin, end, machines_[machine], stage, stages_, options_, enough);
    return used_share(segments_.load(begin, end), machines_[machine], stage, stages_, options_);
  }

  Arrangement read_off(unsigned mask) const {
    Arrangement made;
    std::vector<Machine> arranged;
    for (int end = segments_.count(); mask != 0;) {
      const From from = from_[index(mask, end)];
      made.order.push_back(from.machine);
      arranged.push_back(machines_[from.machine]);
      made.cutting.loads.push_back(segments_.load(from.begin, end));
      if (from.begin > 0) made.cutting.cuts.push_back(segments_.positions()[from.begin]);
      mask ^= 1U << from.machine;
      end = from.begin;
    }
    std::reverse(made.order.begin(), made.order.end());
    std::reverse(arranged.begin(), arranged.end());
    std::reverse(made.cutting.loads.begin(), made.cutting.loads.end());
    std::reverse(made.cutting.cuts.begin(), made.cutting.cuts.end());
    made.cutting.fullest = fullest(made.cutting.loads, arranged, options_);
    return made;
  }

  const Segments& segments_;
  std::span<const Machine> machines_;
  Balance balance_;
  const TrainingAssumptions& options_;
  int stages_;
  int places_;
  std::vector<double> best_;
  std::vector<From> from_;
};

}  // namespace

std::optional<Arrangement> arrange(const Segments& segments, std::span<const Machine> machines, Balance balance,
                                   const TrainingAssumptions& options, double most_steps) {
  if (balance == Balance::kParams || machines.empty() || machines.size() > 16 ||
      static_cast<int>(machines.size()) > segments.most_stages())
    return std::nullopt;
  const double steps = std::pow(2.0, machines.size()) * static_cast<double>(machines.size()) *
                       std::pow(static_cast<double>(segments.count()), 2) / 2;
  if (steps > most_steps) return std::nullopt;
  return ArrangementSearch(segments, machines, balance, options).run();
}

}  // namespace ravnest::plan
