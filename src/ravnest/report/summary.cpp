#include "ravnest/report/summary.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "ravnest/base/printable.h"
#include "ravnest/base/text.h"
#include "ravnest/base/words/table.h"
#include "ravnest/base/words/units.h"
#include "ravnest/report/limit.h"

namespace ravnest::report {
namespace {

std::string two_decimals(double value) { return text(std::fixed, std::setprecision(2), value); }

std::string plural(std::uint64_t count, std::string_view noun) { return text(count, " ", noun, count == 1 ? "" : "s"); }

std::string settings(const RunSummary& run) {
  std::string line = text("schedule ", printable(run.schedule));
  if (run.window > 0) line += text(", window ", run.window);
  if (!run.compression.empty()) line += text(", compression ", printable(run.compression));
  if (run.updates_per_epoch > 0) line += text(", ", plural(run.updates_per_epoch, "update"), " per epoch");
  return line + "\n";
}

std::string share(double seconds, const wire::NodeWork& work) {
  return work.running_s > 0 ? text(std::lround(100 * std::clamp(seconds / work.running_s, 0.0, 1.0)), " %") : "";
}

std::string table(const RunSummary& run) {
  Table table({"node", "role", "busy", "forward", "backward", "update", "staleness", "most", "versions", "sent",
               "received", "round trip"});
  for (const auto& [node, role, work] : run.nodes) {
    table.add({printable(node), printable(role), share(busy_share(work) * work.running_s, work),
               share(work.forward_s, work), share(work.backward_s, work), share(work.update_s, work),
               two_decimals(work.staleness_mean), text(work.staleness_most), text(work.versions_most),
               quantity(static_cast<double>(work.bytes_sent), "B"),
               quantity(static_cast<double>(work.bytes_received), "B"),
               work.round_trip_s > 0 ? duration(work.round_trip_s) : ""});
  }
  return table.text();
}

}  // namespace

std::string headline(const RunSummary& run) {
  std::string line = text("Trained ", plural(run.epochs, "epoch"), " in ", clock_time(run.seconds));
  if (const BadLosses& bad = run.bad_losses; bad.steps > 0)
    line += text(", but the loss was not finite in ", plural(bad.steps, "step"), ", first in step ", bad.first);
  line += text(": ", plural(run.samples, "sample"));
  if (run.seconds > 0 && run.samples > 0)
    line += text(", ", compact(static_cast<double>(run.samples) / run.seconds), " samples/s");
  if (run.accuracy) line += text(", accuracy ", two_decimals(*run.accuracy), " %");
  return line + "\n";
}

double busy_share(const wire::NodeWork& work) {
  const double share = (work.forward_s + work.backward_s + work.update_s) / work.running_s;
  return work.running_s > 0 && std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0;
}

std::string summary_text(const RunSummary& run) {
  std::string lines = headline(run) + settings(run);
  if (run.nodes.empty()) return lines;
  return text(lines, "\n", table(run), "\n", diagnosis_text(run, diagnose(run)));
}

}  // namespace ravnest::report
