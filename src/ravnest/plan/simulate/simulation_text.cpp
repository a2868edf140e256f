#include "ravnest/plan/simulate/simulation_text.h"

#include <algorithm>
#include <cmath>

#include "ravnest/base/words/table.h"
#include "ravnest/base/words/units.h"
#include "ravnest/plan/show/drawing.h"

namespace ravnest::plan {
namespace {

constexpr std::size_t kEventWidth = 34;

std::string_view verb(Limit limit) {
  switch (limit) {
    case Limit::kCompute: return " computes, ";
    case Limit::kSend: return " sends, ";
    case Limit::kReceive: return " receives, ";
    case Limit::kRoundTrip: break;
  }
  return "";
}

// "1.34x"; empty where there is nothing to compare.
std::string gain_words(const SimulatedStep& step) {
  if (!step.anew || step.kept.samples_per_s <= 0) return "";
  return text(quantity(std::round(100 * step.anew->samples_per_s / step.kept.samples_per_s) / 100, ""), "x");
}

// The length of a bar, at least a sign for what is not nothing.
std::string bar(char sign, double value, double most, int width) {
  if (value <= 0 || most <= 0) return "";
  return std::string(static_cast<std::size_t>(std::max(1.0, std::round(value / most * width))), sign);
}

}  // namespace

std::string limit_words(const PlanRate& rate) {
  std::string words;
  if (rate.clusters > 0) {
    words = rate.limit == Limit::kRoundTrip ? text("round trip of cluster ", rate.slowest_cluster, ", ")
                                            : text(node_name(rate.slowest_node), verb(rate.limit));
    words += text(duration(rate.period_s), " per batch");
  }
  if (rate.still_clusters > 0) {
    words += text(words.empty() ? "" : "; ", rate.still_clusters, rate.still_clusters == 1 ? " cluster" : " clusters",
                  rate.still_clusters == 1 ? " stands" : " stand", " still, ", node_name(rate.first_lost), " is gone");
  }
  return words;
}

std::string simulation_table(const std::vector<SimulatedStep>& steps) {
  Table figures({"event", "nodes", "kept", "clusters", "used", "anew", "clusters", "used", "gain"});
  Table limits({"event", "kept: limited by", "anew: limited by"});
  for (const SimulatedStep& step : steps) {
    const std::string event = shortened(step.event, kEventWidth);
    const PlanRate& kept = step.kept;
    std::vector<std::string> row = {event, text(step.nodes), quantity(kept.samples_per_s, ""), text(kept.clusters),
                                    text(kept.nodes)};
    if (step.anew) {
      row.insert(row.end(), {quantity(step.anew->samples_per_s, ""), text(step.anew->clusters), text(step.anew->nodes),
                             gain_words(step)});
    } else {
      row.insert(row.end(), {"", "", "", ""});
    }
    figures.add(std::move(row));
    limits.add({event, limit_words(kept), step.anew ? limit_words(*step.anew) : "no plan"});
  }
  return text(figures.text(), "\n", limits.text());
}

std::string advice(const std::vector<SimulatedStep>& steps) {
  std::string lines;
  for (const SimulatedStep& step : steps) {
    const double kept = step.kept.samples_per_s;
    if (!step.anew) {
      lines += text("After \"", step.event, "\" no plan can be made: ", step.no_plan, "\n");
    } else if (kept <= 0 && step.anew->samples_per_s > 0) {
      lines += text("After \"", step.event, "\" nothing trains any more; planning anew gives ",
                    quantity(step.anew->samples_per_s, ""), " samples/s.\n");
    } else if (step.anew->samples_per_s > kWorthPlanningAnew * kept) {
      lines += text(
          "After \"", step.event, "\" planning anew gains ", std::lround(100 * (step.anew->samples_per_s / kept - 1)),
          " %: ", quantity(step.anew->samples_per_s, ""), " instead of ", quantity(kept, ""), " samples/s.\n");
    }
  }
  return lines;
}

std::string bars(const std::vector<SimulatedStep>& steps, int columns) {
  double most = 0;
  for (const SimulatedStep& step : steps)
    most = std::max({most, step.kept.samples_per_s, step.anew ? step.anew->samples_per_s : 0});
  std::size_t width = 0;
  for (const SimulatedStep& step : steps) width = std::max(width, shown_width(shortened(step.event, kEventWidth)));
  const int room = std::max(10, columns - static_cast<int>(width) - 18);
  std::string result;
  for (const SimulatedStep& step : steps) {
    const std::string event = shortened(step.event, kEventWidth);
    const std::string kept = bar('=', step.kept.samples_per_s, most, room);
    result += text(event, std::string(width - shown_width(event), ' '), "  kept  ", kept, kept.empty() ? "" : " ",
                   quantity(step.kept.samples_per_s, ""), "\n");
    const std::string anew = bar('#', step.anew ? step.anew->samples_per_s : 0, most, room);
    result += text(std::string(width, ' '), "  anew  ", anew, anew.empty() ? "" : " ",
                   step.anew ? quantity(step.anew->samples_per_s, "") : "no plan", "\n");
  }
  return result;
}

}  // namespace ravnest::plan
