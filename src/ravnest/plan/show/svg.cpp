#include "ravnest/plan/show/svg.h"

#include <algorithm>
#include <map>

#include "ravnest/base/words/units.h"
#include "ravnest/plan/show/drawing.h"
#include "ravnest/plan/show/ring_bands.h"
#include "ravnest/plan/show/words.h"

namespace ravnest::plan {
namespace {

// Beyond these a drawing is no longer looked at; what is left out is counted in words.
constexpr std::size_t kMostClusters = 24;
constexpr int kMostStages = 24;
constexpr std::size_t kMostListed = 48;

constexpr double kMargin = 28;
constexpr double kRowsTop = 84;
constexpr double kLabelWidth = 96;
constexpr double kBoxWidth = 212;
constexpr double kBoxHeight = 132;
constexpr double kBoxGap = 84;
constexpr double kRowGap = 64;
constexpr double kEndWidth = 250;
constexpr double kEdge = 9;  // height of the bands of the rings
constexpr double kLegendColumn = 330;
constexpr double kLine = 18;

constexpr std::string_view kRed = "#dc2626";

std::string fill(int ring, double opacity) {
  return text("fill=\"", palette(ring), "\" fill-opacity=\"", opacity, "\"");
}

class PlanDrawing {
 public:
  explicit PlanDrawing(const Plan& plan) : plan_(plan), clusters_(std::min(plan.clusters.size(), kMostClusters)) {
    for (std::size_t c = 0; c < clusters_; ++c)
      columns_ = std::max(columns_, static_cast<int>(drawn_stages(plan.clusters[c]).size()));
    width_ = std::max(x_of(columns_) + kEndWidth, 2 * kMargin + 2 * kLegendColumn);
  }

  std::string run() {
    draw_title();
    for (std::size_t c = 0; c + 1 < clusters_; ++c) draw_joints(c);
    for (std::size_t c = 0; c < clusters_; ++c) draw_cluster(c);
    y_ = row_y(clusters_) - kRowGap + 40;
    if (plan_.clusters.size() > clusters_) {
      note(text("and ", count(plan_.clusters.size() - clusters_, "more cluster"),
                ", which are not drawn; `ravnest explain` lists them all"));
      y_ += kLine / 2;
    }
    draw_legend();
    draw_unused();
    return drawing_.document(width_, y_ + kMargin / 2, title());
  }

 private:
  static double x_of(int column) { return kMargin + kLabelWidth + column * (kBoxWidth + kBoxGap); }
  // Of a share of the box's edge, within its rounded corners.
  static double edge_x(int column, double share) { return x_of(column) + 4 + share * (kBoxWidth - 8); }
  static double row_y(std::size_t row) { return kRowsTop + static_cast<double>(row) * (kBoxHeight + kRowGap); }

  // All stages, or of very many the first ones and the leaf.
  static std::vector<int> drawn_stages(const PlannedCluster& cluster) {
    const int stages = static_cast<int>(cluster.stages.size());
    std::vector<int> drawn;
    for (int s = 0; s < std::min(stages, kMostStages); ++s) drawn.push_back(s);
    if (stages > kMostStages) drawn.back() = stages - 1;
    return drawn;
  }
  // -1 where the stage is left out.
  static int column_of(const PlannedCluster& cluster, int stage) {
    const int stages = static_cast<int>(cluster.stages.size());
    if (stages <= kMostStages || stage < kMostStages - 1) return stage;
    return stage == stages - 1 ? kMostStages - 1 : -1;
  }

  std::string title() const { return text("Predicted: ", quantity(plan_.samples_per_s, ""), " samples/s"); }

  void draw_title() {
    std::size_t used = 0;
    for (const PlannedCluster& cluster : plan_.clusters) used += cluster.stages.size();
    drawing_.words(kMargin, 38, title(), {.size = 22, .bold = true});
    drawing_.words(kMargin, 60,
                   text(count(used, "node"), " in ", count(plan_.clusters.size(), "cluster"), ", cut by ",
                        name(plan_.balance), ", batches of ", plan_.batch, "; training on one machine would take ",
                        megabytes(static_cast<double>(plan_.memory_bytes)), "; plan ", plan_.id),
                   {.size = 12, .colour = kGrey});
  }

  void draw_joints(std::size_t c) {
    const PlannedCluster& upper = plan_.clusters[c];
    const PlannedCluster& lower = plan_.clusters[c + 1];
    const double top = row_y(c) + kBoxHeight;
    const double bottom = row_y(c + 1);
    const double middle = (top + bottom) / 2;
    for (const RingJoint& joint : ring_joints(ring_bands(upper), ring_bands(lower))) {
      const int from = column_of(upper, joint.upper_stage);
      const int to = column_of(lower, joint.lower_stage);
      if (from < 0 || to < 0) continue;
      const double a = edge_x(from, joint.upper_left);
      const double b = edge_x(from, joint.upper_right);
      const double d = edge_x(to, joint.lower_left);
      const double e = edge_x(to, joint.lower_right);
      drawing_.begin_group(text("ring ", joint.ring, ": ", node_name(upper.stages[joint.upper_stage].node), " and ",
                                node_name(lower.stages[joint.lower_stage].node)));
      drawing_.path(text("M", a, " ", top, "C", a, " ", middle, " ", d, " ", middle, " ", d, " ", bottom, "H", e, "C",
                         e, " ", middle, " ", b, " ", middle, " ", b, " ", top, "Z"),
                    fill(joint.ring, 0.22));
      drawing_.end_group();
    }
  }

  void draw_cluster(std::size_t c) {
    const PlannedCluster& cluster = plan_.clusters[c];
    const std::vector<int> drawn = drawn_stages(cluster);
    const double y = row_y(c);
    const double middle = y + kBoxHeight / 2;
    drawing_.words(kMargin, middle - 4, text("cluster ", c), {.size = 14, .bold = true});
    drawing_.words(kMargin, middle + 14, count(cluster.stages.size(), "stage"), {.size = 11, .colour = kGrey});
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      const double x = x_of(static_cast<int>(i));
      if (i > 0) draw_hop(cluster, drawn[i - 1], drawn[i], x, middle);
      draw_stage(c, drawn[i], x, y);
    }
    draw_bands(cluster, y);
    draw_rate(c, x_of(static_cast<int>(drawn.size())) - kBoxGap + 20, middle);
  }

  void draw_hop(const PlannedCluster& cluster, int from, int to, double x, double y) {
    const std::string sent = quantity(static_cast<double>(cluster.stages[from].prediction.bytes_out), "B");
    const int between = to - from - 1;
    drawing_.line(x - kBoxGap + 4, y, x - 4, y,
                  text("stroke=\"", kGrey, "\" stroke-width=\"1.5\" marker-end=\"url(#tip)\"",
                       between > 0 ? " stroke-dasharray=\"5 4\"" : ""));
    drawing_.words(x - kBoxGap / 2, y - 8, sent, {.size = 11, .colour = kGrey, .anchor = "middle"});
    if (between > 0)
      drawing_.words(x - kBoxGap / 2, y + 16, text(between, " not drawn"),
                     {.size = 11, .colour = kGrey, .anchor = "middle"});
  }

  void draw_stage(std::size_t c, int s, double x, double y) {
    const PlannedCluster& cluster = plan_.clusters[c];
    const PlannedStage& stage = cluster.stages[s];
    const PoolNode& node = plan_.pool.nodes[stage.node];
    const bool slowest = s == cluster.slowest_stage;
    const std::string begins = stage.module.empty() ? stage.first_operator : stage.module;
    const std::string reached = node.label.empty() ? text(node.address) : text(node.label, ", ", node.address);
    const double left = x + 12;
    const double right = x + kBoxWidth - 12;
    const StagePrediction& own = stage.prediction;
    drawing_.begin_group(text(describe(plan_.pool, stage.node), " begins at ", begins, "; computes ",
                              duration(own.compute_s), ", sends ", duration(own.send_s), ", receives ",
                              duration(own.receive_s), " per batch; ", own.versions, " versions of the weights"));
    drawing_.rectangle(x, y, kBoxWidth, kBoxHeight,
                       text("rx=\"8\" fill=\"", slowest ? "#fef2f2" : "#f9fafb", "\" stroke=\"",
                            slowest ? kRed : "#9ca3af", "\" stroke-width=\"", slowest ? 2 : 1, "\""));
    drawing_.words(left, y + 29, node_name(stage.node), {.size = 14, .bold = true});
    drawing_.words(right, y + 29, text(role(s, static_cast<int>(cluster.stages.size())), slowest ? ", slowest" : ""),
                   {.size = 12, .colour = slowest ? kRed : kGrey, .anchor = "end", .bold = slowest});
    drawing_.words(left, y + 46, shortened(reached, 32), {.size = 11, .colour = kGrey});
    drawing_.words(left, y + 64, shortened(text("from ", begins), 30));
    drawing_.words(left, y + 82, text(quantity(static_cast<double>(stage.parameters), ""), " params"), {.size = 11});
    drawing_.words(right, y + 82, text("compute ", duration(own.compute_s)), {.size = 11, .anchor = "end"});
    draw_memory(static_cast<double>(stage.memory.total()), node.ram_gb * 1e9, left, y + 92);
    drawing_.end_group();
  }

  void draw_memory(double used, double ram, double x, double y) {
    const double width = kBoxWidth - 24;
    const double share = ram > 0 ? std::clamp(used / ram, 0.0, 1.0) : 1;
    drawing_.rectangle(x, y, width, 6, "rx=\"3\" fill=\"#e5e7eb\"");
    drawing_.rectangle(x, y, std::max(3.0, share * width), 6,
                       text("rx=\"3\" fill=\"", share > 0.9 ? kRed : "#4b5563", "\""));
    drawing_.words(x, y + 20, text(quantity(used, "B"), " of ", quantity(ram, "B")), {.size = 11});
    drawing_.words(x + width, y + 20, text(quantity(ram > 0 ? 100 * used / ram : 100, "%")),
                   {.size = 11, .colour = kGrey, .anchor = "end"});
  }

  void draw_bands(const PlannedCluster& cluster, double y) {
    for (const RingBand& band : ring_bands(cluster)) {
      const int column = column_of(cluster, band.stage);
      if (column < 0) continue;
      const double x = edge_x(column, band.left);
      const double width = edge_x(column, band.right) - x;
      const double bottom = y + kBoxHeight - kEdge / 2;
      drawing_.begin_group(text("ring ", band.ring, ": ", band.end - band.first, " elements"));
      drawing_.rectangle(x, y - kEdge / 2, width, kEdge, fill(band.ring, 1));
      drawing_.rectangle(x, bottom, width, kEdge, fill(band.ring, 1));
      if (width > 34)
        drawing_.words(x + width / 2, bottom + kEdge - 1.5, text("ring ", band.ring),
                       {.size = 8, .colour = "#ffffff", .anchor = "middle"});
      drawing_.end_group();
    }
  }

  void draw_rate(std::size_t c, double x, double y) {
    const PlannedCluster& cluster = plan_.clusters[c];
    drawing_.words(x, y - 12, text(quantity(cluster.samples_per_s, ""), " samples/s"), {.size = 16, .bold = true});
    drawing_.words(x, y + 6, text(duration(cluster.period_s), " per batch"), {.size = 11, .colour = kGrey});
    const std::string limit =
        cluster.limit == Limit::kRoundTrip
            ? text("limit: round trip of ", duration(cluster.round_trip_s))
            : text("limit: ", name(cluster.limit), " at ", node_name(cluster.stages[cluster.slowest_stage].node));
    drawing_.words(x, y + 22, limit, {.size = 11, .colour = kRed});
  }

  void note(const std::string& words) {
    drawing_.words(kMargin, y_, words, {.size = 12, .colour = kGrey});
    y_ += kLine;
  }

  void draw_legend() {
    note(
        "An arrow carries what the stage before it sends per batch: activations forward and gradients back. The bar is "
        "memory of RAM.");
    std::map<int, std::pair<std::string, std::int64_t>> rings;
    for (const PlannedStage& stage : plan_.clusters.empty() ? std::vector<PlannedStage>() : plan_.clusters[0].stages) {
      for (const RingPart& part : stage.rings) {
        auto& [first, elements] = rings.try_emplace(part.ring, part.first_parameter, 0).first->second;
        elements += part.elements;
      }
    }
    note(plan_.clusters.size() == 1
             ? text(count(rings.size(), "ring"), "; one cluster has nobody to average with yet")
             : text(count(rings.size(), "ring"), ", over which the clusters average every ",
                    plan_.training.updates_per_round, " updates; the last one talks to the first"));
    const int columns = std::max(1, static_cast<int>((width_ - 2 * kMargin) / kLegendColumn));
    int place = 0;
    for (const auto& [ring, what] : rings) {
      if (place == static_cast<int>(kMostListed)) break;
      const int row = place / columns;
      const double x = kMargin + place % columns * kLegendColumn;
      const double y = y_ + row * kLine;
      drawing_.rectangle(x, y - 10, 12, 12, text("rx=\"2\" ", fill(ring, 1)));
      drawing_.words(
          x + 18, y,
          text("ring ", ring, ": ", shortened(what.first, 32), ", ", quantity(static_cast<double>(what.second), "")),
          {.size = 11});
      ++place;
    }
    const int rows = (place + columns - 1) / columns;
    y_ += rows * kLine;
    if (rings.size() > kMostListed) note(text("and ", count(rings.size() - kMostListed, "more ring")));
    y_ += kLine / 2;
  }

  void draw_unused() {
    if (plan_.unused.empty()) return;
    const std::size_t listed = std::min(plan_.unused.size(), kMostListed);
    const auto per_line = static_cast<std::size_t>(std::max(1.0, (width_ - 2 * kMargin) / 300));
    drawing_.words(kMargin, y_, text(count(plan_.unused.size(), "node"), " not used"), {.size = 12, .bold = true});
    y_ += kLine;
    for (std::size_t first = 0; first < listed; first += per_line) {
      std::vector<std::string> names;
      for (std::size_t i = first; i < std::min(listed, first + per_line); ++i)
        names.push_back(shortened(describe(plan_.pool, plan_.unused[i]), 44));
      note(join(names));
    }
    if (plan_.unused.size() > listed) note(text("and ", plan_.unused.size() - listed, " more"));
  }

  const Plan& plan_;
  std::size_t clusters_;
  int columns_ = 1;
  double width_ = 0;
  double y_ = 0;
  Drawing drawing_;
};

}  // namespace

std::string to_svg(const Plan& plan) { return PlanDrawing(plan).run(); }

}  // namespace ravnest::plan
