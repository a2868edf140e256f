#include "ravnest/plan/predict/costs.h"

#include <algorithm>

namespace ravnest::plan {

std::string parameter_label(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  std::string module = dot == std::string::npos ? "" : name.substr(0, dot);
  std::replace(module.begin(), module.end(), '.', '_');
  return "L__self___" + module + "." + (dot == std::string::npos ? name : name.substr(dot + 1));
}

std::int64_t averaged_bytes(const StoredCost& stored) {
  return stored.trainable || stored.statistic ? 4 * stored.elements : 0;
}

std::int64_t owned_parameters(const ModelCosts& costs, int begin, int end) {
  std::int64_t sum = 0;
  for (const StoredCost& each : costs.stored) {
    if (each.parameter && each.used_at.front() >= begin && each.used_at.front() < end) sum += each.elements;
  }
  return sum;
}

std::int64_t owned_trainable(const ModelCosts& costs, int begin, int end) {
  std::int64_t sum = 0;
  for (const StoredCost& each : costs.stored) {
    if (each.trainable && each.used_at.front() >= begin && each.used_at.front() < end) sum += each.elements;
  }
  return sum;
}

}  // namespace ravnest::plan
