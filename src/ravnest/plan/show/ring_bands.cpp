#include "ravnest/plan/show/ring_bands.h"

#include <algorithm>
#include <map>

namespace ravnest::plan {
namespace {

double along(const RingBand& band, std::int64_t element) {
  const double share = static_cast<double>(element - band.first) / static_cast<double>(band.end - band.first);
  return band.left + share * (band.right - band.left);
}

}  // namespace

std::vector<RingBand> ring_bands(const PlannedCluster& cluster) {
  std::vector<RingBand> bands;
  std::map<int, std::int64_t> reached;  // elements of a ring that earlier stages hold
  for (std::size_t s = 0; s < cluster.stages.size(); ++s) {
    double total = 0;
    for (const RingPart& part : cluster.stages[s].rings) total += static_cast<double>(part.elements);
    double left = 0;
    for (const RingPart& part : cluster.stages[s].rings) {
      if (part.elements <= 0) continue;
      std::int64_t& first = reached[part.ring];
      const double right = left + static_cast<double>(part.elements) / total;
      bands.push_back({part.ring, static_cast<int>(s), first, first + part.elements, left, right});
      first += part.elements;
      left = right;
    }
  }
  return bands;
}

std::vector<RingJoint> ring_joints(const std::vector<RingBand>& upper, const std::vector<RingBand>& lower) {
  std::vector<RingJoint> joints;
  for (const RingBand& above : upper) {
    for (const RingBand& below : lower) {
      const std::int64_t first = std::max(above.first, below.first);
      const std::int64_t end = std::min(above.end, below.end);
      if (above.ring != below.ring || first >= end) continue;
      joints.push_back({above.ring, above.stage, along(above, first), along(above, end), below.stage,
                        along(below, first), along(below, end)});
    }
  }
  return joints;
}

}  // namespace ravnest::plan
