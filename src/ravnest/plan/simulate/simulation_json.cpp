#include "ravnest/base/json.h"
#include "ravnest/base/json_field.h"
#include "ravnest/plan/simulate/simulation_text.h"

namespace ravnest::plan {
namespace {

nlohmann::ordered_json encode(const PlanRate& rate) {
  nlohmann::ordered_json made = {{"samples_per_s", number_to_json(rate.samples_per_s)},
                                 {"clusters", rate.clusters},
                                 {"still_clusters", rate.still_clusters},
                                 {"nodes", rate.nodes},
                                 {"limited_by", limit_words(rate)}};
  if (rate.clusters == 0) return made;
  made["slowest"] = {{"cluster", rate.slowest_cluster},
                     {"node", rate.slowest_node},
                     {"limit", name(rate.limit)},
                     {"period_s", number_to_json(rate.period_s)}};
  return made;
}

}  // namespace

std::string encode_steps(const std::vector<SimulatedStep>& steps) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const SimulatedStep& step : steps) {
    nlohmann::ordered_json& made = all.emplace_back();
    made = {{"event", step.event}, {"nodes", step.nodes}, {"kept", encode(step.kept)}, {"anew", nullptr}};
    if (step.anew) {
      made["anew"] = encode(*step.anew);
    } else {
      made["no_plan"] = step.no_plan;
    }
  }
  const nlohmann::ordered_json document = {{"version", 1}, {"steps", std::move(all)}};
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace ravnest::plan
