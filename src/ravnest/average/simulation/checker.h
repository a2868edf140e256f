// What agreements promise, held against what they do.
//
// The checker keeps its own books: who began which attempt, who has which result, who applied it to what.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ravnest/average/agreement.h"
#include "ravnest/base/text.h"

namespace ravnest::average::simulation {

// Models are numbers that tell everything that went into them.
using Model = std::uint64_t;
constexpr Model mixed(Model model, std::uint64_t with) {
  model = (model ^ (with + 0x9E3779B97F4A7C15U)) * 0xBF58476D1CE4E5B9U;
  return model ^ (model >> 29);
}

// An attempt as it goes.
struct Ring {
  struct Part {
    int incarnation = 0;
    Model model = 0;         // that was entered
    std::uint64_t base = 0;  // the attempt whose result it was trained from
    bool newcomer = false;
    Capture capture = {};  // as it entered, or has finished
    bool changed = false;  // it has trained on since it finished, and others may not know
    bool complete = false;
  };

  Attempt attempt;
  std::map<int, Part> parts;  // of those that began it
  Model result = 0;           // once all have
};

class Checker {
 public:
  // `parted`: some that live do not reach each other. Then there may be several groups, and who is cut off is out.
  Checker(int clusters, bool parted) : clusters_(static_cast<std::size_t>(clusters)), parted_(parted) {}

  void starts(int cluster, int incarnation);
  void ends(int cluster);
  // Whether all participants have begun the attempt now. Of the part only what the cluster itself knows is looked at.
  bool begins(int cluster, const Attempt& attempt, Ring::Part part);
  void completes(int cluster, std::uint64_t attempt);
  // What the cluster's model is after the round that holds.
  Model holds(int cluster, std::uint64_t attempt, const Agreement::Holds& holds);
  // Nothing is under way any more.
  void all_is_quiet();

  template <class... Ts>
  void violated(const Ts&... parts) {
    if (violation_.empty()) violation_ = text(parts...);
  }
  const std::string& violation() const { return violation_; }
  Ring& ring(std::uint64_t attempt) { return rings_[attempt]; }
  std::uint64_t attempts() const { return rings_.size(); }
  std::uint64_t newcomers() const { return newcomers_; }
  bool alive(int cluster, int incarnation) const { return at(cluster).incarnation == incarnation; }
  std::uint64_t rounds(int cluster) const { return at(cluster).held.size(); }

 private:
  struct Truth {
    int incarnation = 0;                          // 0: not running
    std::map<std::uint64_t, std::uint64_t> held;  // by round: the attempt
    std::uint64_t round = 0;                      // that held last
    std::uint64_t base = 0;                       // its attempt
    Model model = 0;                              // its result
    std::uint64_t checkpoint = 0;                 // the number of the last one
    std::set<double> weights;                     // that counted
  };

  Truth& at(int cluster) { return clusters_[static_cast<std::size_t>(cluster)]; }
  const Truth& at(int cluster) const { return clusters_[static_cast<std::size_t>(cluster)]; }
  void check_bases(const Ring& ring);
  void check_checkpoint(int cluster, const Ring& ring);

  std::vector<Truth> clusters_;
  bool parted_;
  std::map<std::uint64_t, Ring> rings_;
  std::uint64_t newcomers_ = 0;
  std::string violation_;
};

}  // namespace ravnest::average::simulation
