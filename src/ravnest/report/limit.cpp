#include "ravnest/report/limit.h"

#include <algorithm>
#include <cmath>

#include "ravnest/base/printable.h"
#include "ravnest/base/text.h"
#include "ravnest/base/words/units.h"

namespace ravnest::report {
namespace {

constexpr double kBusy = 0.9;
constexpr double kNearlyBusy = 0.7;
constexpr double kAlike = 0.75;        // of the busiest stage's share: the others are as busy
constexpr double kNearPossible = 0.8;  // of what the schedule or the window allows
constexpr double kLongTrips = 0.3;     // of a pass's way
constexpr double kStale = 2;

std::string percent(double share) { return text(std::lround(100 * share), " %"); }

double computed_s(const wire::NodeWork& work) { return work.forward_s + work.backward_s + work.update_s; }

double window_of(const RunSummary& run) { return run.window > 0 ? run.window : static_cast<double>(run.nodes.size()); }

double parts_of(const RunSummary& run) {
  const wire::NodeWork& root = run.nodes.front().work;
  return root.updates > 0 ? static_cast<double>(root.passes) / static_cast<double>(root.updates) : 1;
}

// With a flush after each update, of m parts on s stages: m of m + s - 1 steps.
double possible_share(const RunSummary& run) {
  if (run.schedule == "async") return 1;
  const double parts = std::max(1.0, parts_of(run));
  return parts / (parts + static_cast<double>(run.nodes.size()) - 1);
}

struct Way {
  double computing_s = 0;  // of one pass, through all stages and back
  double between_s = 0;
};

Way way_of(const RunSummary& run) {
  Way way;
  for (std::size_t i = 0; i < run.nodes.size(); ++i) {
    const wire::NodeWork& work = run.nodes[i].work;
    if (work.passes > 0) way.computing_s += computed_s(work) / static_cast<double>(work.passes);
    if (i + 1 < run.nodes.size()) way.between_s += work.round_trip_s;
  }
  return way;
}

Limit decide(const RunSummary& run, const Diagnosis& found) {
  if (found.busy >= kBusy) return found.others_busy >= kAlike * found.busy ? Limit::kAllStages : Limit::kStage;
  if (found.possible_busy < kBusy && found.busy >= kNearPossible * found.possible_busy) return Limit::kSchedule;
  if (found.busy >= kNearlyBusy) return Limit::kSeveral;
  if (found.between_machines >= kLongTrips) return Limit::kNetwork;
  if (found.window_full && run.nodes.size() > 1) return Limit::kWindow;
  return Limit::kData;
}

std::string network_words(const RunSummary& run, const Diagnosis& diagnosis) {
  const bool small_already = run.compression.starts_with("int") || run.compression.starts_with("topk");
  std::string help;
  if (diagnosis.window_full) help = text("a window larger than ", window_of(run), " (weights get older by it)");
  if (!small_already) help += text(help.empty() ? "" : ", or ", "compression='int8'");
  if (help.empty()) help = "links with more bandwidth";
  return text("Limited by the network: round trips are ", percent(diagnosis.between_machines),
              " of a pass's way, and no stage was busy for more than ", percent(diagnosis.busy), ". What helps: ", help,
              ".");
}

std::string data_words(const RunSummary& run, const Diagnosis& diagnosis) {
  const auto rate = [](const NodeSummary& node) {
    return node.work.running_s > 0 ? static_cast<double>(node.work.bytes_sent) / node.work.running_s : 0;
  };
  std::string words =
      text("Limited by the root's data loop, it seems: no stage was busy for more than ", percent(diagnosis.busy),
           ", and round trips are short. What helps: a quicker loader (", "num_workers), larger batches.");
  if (run.nodes.size() < 2) return words;
  const auto most = std::max_element(run.nodes.begin(), run.nodes.end(),
                                     [&](const auto& a, const auto& b) { return rate(a) < rate(b); });
  return text(words, " If the loader is quick, look at the links: ", printable(most->node), " sent ",
              quantity(rate(*most), "B/s"), ".");
}

std::string limit_words(const RunSummary& run, const Diagnosis& diagnosis) {
  const std::string busiest = diagnosis.limit == Limit::kUnknown ? "" : printable(run.nodes[diagnosis.busiest].node);
  switch (diagnosis.limit) {
    case Limit::kUnknown: return "Nothing was measured, so nothing can be said of what limited the run.";
    case Limit::kStage:
      return text("Limited by the computing of ", busiest, ": busy for ", percent(diagnosis.busy),
                  " of the time, the others for ", percent(diagnosis.others_busy),
                  ". What helps: a smaller stage or a faster machine there; `ravnest plan` with each node's compute "
                  "finds the cut.");
    case Limit::kAllStages:
      return run.nodes.size() == 1
                 ? text("Limited by the computing of ", busiest, ": busy for ", percent(diagnosis.busy),
                        " of the time. What helps: a faster machine, or more of them.")
                 : text("Limited by computing, on all stages alike: ", busiest, " was busy for ",
                        percent(diagnosis.busy), " of the time, the others for ", percent(diagnosis.others_busy),
                        ". What helps: faster machines, or more of them.");
    case Limit::kSchedule:
      return text("Limited by schedule='", printable(run.schedule), "': with ", compact(std::max(1.0, parts_of(run))),
                  " passes per update, ", run.nodes.size(), " stages can be busy for ",
                  percent(diagnosis.possible_busy), " of the time; ", busiest, " was for ", percent(diagnosis.busy),
                  ". What helps: more microbatches, or schedule='async'.");
    case Limit::kSeveral:
      return text("Nothing stands out: the busiest stage, ", busiest, ", computed for ", percent(diagnosis.busy),
                  " of the time.");
    case Limit::kNetwork: return network_words(run, diagnosis);
    case Limit::kWindow:
      return text("Limited by the window: with ", window_of(run), " at a time, passes are too few for ",
                  run.nodes.size(), " stages. What helps: a larger window (weights get older by it).");
    case Limit::kData: return data_words(run, diagnosis);
  }
  return "";
}

}  // namespace

Diagnosis diagnose(const RunSummary& run) {
  Diagnosis found;
  if (std::none_of(run.nodes.begin(), run.nodes.end(), [](const auto& node) { return busy_share(node.work) > 0; }))
    return found;
  double all = 0;
  for (std::size_t i = 0; i < run.nodes.size(); ++i) {
    const wire::NodeWork& work = run.nodes[i].work;
    const double busy = busy_share(work);
    all += busy;
    if (busy > found.busy) {
      found.busy = busy;
      found.busiest = i;
    }
    if (work.staleness_mean > run.nodes[found.stalest].work.staleness_mean) found.stalest = i;
  }
  const std::size_t others = run.nodes.size() - 1;
  found.others_busy = others > 0 ? (all - found.busy) / static_cast<double>(others) : found.busy;
  found.possible_busy = possible_share(run);

  const Way way = way_of(run);
  const double length_s = way.computing_s + way.between_s;
  if (std::isfinite(length_s) && length_s > 0) found.between_machines = way.between_s / length_s;
  // Little's law: passes under way are their rate times the length of their way.
  const wire::NodeWork& root = run.nodes.front().work;
  const double rate = root.running_s > 0 ? static_cast<double>(root.passes) / root.running_s : 0;
  found.window_full = rate * length_s >= kNearPossible * window_of(run);

  const wire::NodeWork& stalest = run.nodes[found.stalest].work;
  found.stale = stalest.staleness_mean >= kStale && stalest.updates >= stalest.passes;
  found.limit = decide(run, found);
  return found;
}

std::string diagnosis_text(const RunSummary& run, const Diagnosis& diagnosis) {
  std::string lines = limit_words(run, diagnosis) + "\n";
  if (diagnosis.stale) {
    const NodeSummary& node = run.nodes[diagnosis.stalest];
    lines +=
        text("The weights of ", printable(node.node), " were ", quantity(node.work.staleness_mean, ""),
             " updates old on average; deep transformers learn less by that. What helps: microbatches=, or a larger "
             "update_frequency.\n");
  }
  return lines;
}

}  // namespace ravnest::report
