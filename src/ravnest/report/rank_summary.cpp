#include "ravnest/report/rank_summary.h"

#include <algorithm>
#include <cmath>

#include "ravnest/base/printable.h"
#include "ravnest/base/text.h"
#include "ravnest/base/words/table.h"
#include "ravnest/base/words/units.h"

namespace ravnest::report {
namespace {

constexpr double kMuchWaiting = 0.15;
constexpr double kUneven = 0.25;  // of the time: how much longer the slowest computes than the fastest
constexpr double kMostlyBusy = 0.7;

double of_time(double seconds, const RankSummary& rank) {
  return rank.running_s > 0 ? std::clamp(seconds / rank.running_s, 0.0, 1.0) : 0;
}

double computing(const RankSummary& rank) { return of_time(rank.forward_s + rank.backward_s + rank.update_s, rank); }

std::string rounded_percent(double share) { return text(std::lround(100 * share), " %"); }

std::string rank_settings(const RanksSummary& summary) {
  std::string line = text("strategy ", printable(summary.strategy), ", ", summary.ranks.size(),
                          summary.ranks.size() == 1 ? " rank" : " ranks");
  if (!summary.backend.empty()) line += text(", by ", printable(summary.backend));
  if (summary.precision != "float32") line += text(", ", printable(summary.precision));
  if (!summary.run.compression.empty()) line += text(", compression ", printable(summary.run.compression));
  if (summary.run.updates_per_epoch > 0) line += text(", ", summary.run.updates_per_epoch, " updates per epoch");
  return line + "\n";
}

std::string skipped_line(const SkippedUpdates& skipped) {
  if (skipped.updates == 0) return "";
  return text(skipped.updates, skipped.updates == 1 ? " update" : " updates",
              " skipped: gradients were not finite in fp16; loss scale ", skipped.loss_scale, "\n");
}

std::string rank_table(const std::vector<RankSummary>& ranks) {
  const bool counted = std::ranges::any_of(ranks, [](const RankSummary& rank) { return rank.bytes_sent > 0; });
  std::vector<std::string> heads = {"rank", "computing", "forward", "backward", "update", "waiting"};
  if (counted) heads.insert(heads.end(), {"sent", "received"});
  Table table(std::move(heads));
  for (const RankSummary& rank : ranks) {
    std::vector<std::string> row = {printable(rank.rank),
                                    rounded_percent(computing(rank)),
                                    rounded_percent(of_time(rank.forward_s, rank)),
                                    rounded_percent(of_time(rank.backward_s, rank)),
                                    rounded_percent(of_time(rank.update_s, rank)),
                                    rounded_percent(of_time(rank.wait_s, rank))};
    if (counted) row.push_back(quantity(static_cast<double>(rank.bytes_sent), "B"));
    if (counted) row.push_back(quantity(static_cast<double>(rank.bytes_received), "B"));
    table.add(std::move(row));
  }
  return table.text();
}

// Ranks wait for the slowest. So who waits least computes longest, and only what that one waits is the network's.
std::string rank_diagnosis(const RanksSummary& summary) {
  const std::vector<RankSummary>& ranks = summary.ranks;
  const auto [fastest, slowest] = std::ranges::minmax_element(ranks, {}, computing);
  const double waiting = of_time(slowest->wait_s, *slowest);
  if (computing(*slowest) == 0) return "Nothing was measured, so nothing can be said of what limited the run.\n";
  if (ranks.size() > 1 && computing(*slowest) - computing(*fastest) >= kUneven) {
    return text("Limited by ", printable(slowest->rank), ": it computed for ", rounded_percent(computing(*slowest)),
                " of the time, ", printable(fastest->rank), " for ", rounded_percent(computing(*fastest)),
                ". What helps: smaller batches there, or leaving it out.\n");
  }
  if (waiting >= kMuchWaiting) {
    return text("Limited by the network: even ", printable(slowest->rank), " waited for gradients for ",
                rounded_percent(waiting), " of the time. What helps: larger batches, update_frequency",
                summary.backend == "NCCL" ? "" : ", compression=\"fp16\"", ".\n");
  }
  if (computing(*slowest) >= kMostlyBusy) {
    return text("Limited by computing: ", printable(slowest->rank), " was busy for ",
                rounded_percent(computing(*slowest)), " of the time. What helps: faster machines, or more of them.\n");
  }
  return text("Limited by the loop that gives the data, it seems: no rank computed for more than ",
              rounded_percent(computing(*slowest)),
              " of the time. What helps: a quicker loader (num_workers), larger "
              "batches.\n");
}

}  // namespace

std::string summary_text(const RanksSummary& summary) {
  std::string lines = headline(summary.run) + rank_settings(summary) + skipped_line(summary.skipped);
  if (summary.ranks.empty()) return lines;
  return text(lines, "\n", rank_table(summary.ranks), "\n", rank_diagnosis(summary));
}

}  // namespace ravnest::report
