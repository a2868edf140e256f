// What befalls the clusters of a simulated run.
#include "ravnest/average/simulation/run.h"

namespace ravnest::average::simulation {

void Run::draw_faults() {
  const bool calm = chance_.percent(10);
  crashes_left_ = calm ? 0 : chance_.pick(0, 5);
  crash_chance_ = chance_.pick(0, 30);
  for (std::uint64_t i = 0; i < crashes_left_; ++i) {
    if (chance_.percent(50))
      network_.after(chance_.pick(0, 3000), {EventKind::kCrash, chance_.pick_int(0, count() - 1)});
  }
  if (!parted_ || count() < 2) return;
  for (std::uint64_t partings = chance_.pick(1, 4); partings > 0; --partings) {
    const int one = chance_.pick_int(0, count() - 1);
    const int other = (one + chance_.pick_int(1, count() - 1)) % count();
    const Time at = chance_.pick(0, 3000);
    network_.after(at, {EventKind::kPart, one, other});
    if (chance_.percent(60)) network_.after(at + chance_.pick(1, 6000), {EventKind::kJoin, one, other});
  }
}

void Run::crash(int index) {
  Cluster& crashing = cluster(index);
  if (!crashing.agreement || crashes_left_ == 0) return;
  --crashes_left_;
  ++outcome_.crashes;
  say(index, " crashes");
  outcome_.ignored += crashing.agreement->ignored();
  crashing.agreement.reset();
  checker_.ends(index);
  network_.forget(index);
  for (int other = 0; other < count(); ++other) {
    if (other != index && network_.connected(index, other)) network_.cut(index, other);
  }
  if (chance_.percent(60)) network_.after(chance_.pick(1, 3000), {EventKind::kStart, index});
}

void Run::leave(int index) {
  say(index, " leaves");
  cluster(index).agreement.reset();
  checker_.ends(index);
  network_.forget(index);
  for (int other = 0; other < count(); ++other) {
    if (other != index && network_.connected(index, other)) network_.close(index, other);
  }
}

void Run::part(int one, int other) {
  say(one, " and ", other, " are parted");
  ++outcome_.partings;
  const int what = chance_.pick_int(0, 2);
  path(one, other).closed = what != 0;
  path(one, other).unreached = what != 1;
  if (what != 0 && network_.connected(one, other)) network_.cut(one, other);
}

void Run::heal(int one, int other) {
  say(one, " and ", other, " reach each other again");
  path(one, other) = {};
  join(one, other);
}

void Run::join(int one, int other) {
  if (path(one, other).closed || network_.connected(one, other)) return;
  if (!cluster(one).agreement || !cluster(other).agreement) return;
  network_.connect(one, other, cluster(one).incarnation, cluster(other).incarnation);
}

}  // namespace ravnest::average::simulation
