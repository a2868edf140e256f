#include "ravnest/report/summary.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "ravnest/base/printable.h"
#include "ravnest/base/table.h"
#include "ravnest/base/text.h"
#include "ravnest/base/units.h"
#include "ravnest/report/limit.h"

namespace ravnest::report {
namespace {

std::string two_decimals(double value) { return text(std::fixed, std::setprecision(2), value); }

std::string plural(std::uint64_t count, std::string_view noun) { return text(count, " ", noun, count == 1 ? "" : "s"); }

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

std::string settings(const RunSummary& run) {
  std::string line = text("schedule ", printable(run.schedule));
  if (run.window > 0) line += text(", window ", run.window);
  if (!run.compression.empty()) line += text(", compression ", printable(run.compression));
  if (run.updates_per_epoch > 0) line += text(", ", plural(run.updates_per_epoch, "update"), " per epoch");
  return line + "\n";
}

std::string share(double seconds, const NodeSummary& node) {
  return node.running_s > 0 ? text(std::lround(100 * std::clamp(seconds / node.running_s, 0.0, 1.0)), " %") : "";
}

std::string table(const RunSummary& run) {
  Table table({"node", "role", "busy", "forward", "backward", "update", "staleness", "most", "versions", "sent",
               "received", "round trip"});
  for (const NodeSummary& node : run.nodes) {
    table.add({printable(node.node), printable(node.role), share(busy_share(node) * node.running_s, node),
               share(node.forward_s, node), share(node.backward_s, node), share(node.update_s, node),
               two_decimals(node.staleness_mean), text(node.staleness_most), text(node.versions_most),
               quantity(static_cast<double>(node.bytes_sent), "B"),
               quantity(static_cast<double>(node.bytes_received), "B"),
               node.round_trip_s > 0 ? duration(node.round_trip_s) : ""});
  }
  return table.text();
}

}  // namespace

std::string summary_text(const RunSummary& run) {
  std::string lines = headline(run) + settings(run);
  if (run.nodes.empty()) return lines;
  return text(lines, "\n", table(run), "\n", verdict_text(run, limit_of(run)));
}

}  // namespace ravnest::report
