#include "ravnest/plan/simulate/simulation_svg.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ravnest/base/words/units.h"
#include "ravnest/plan/show/drawing.h"
#include "ravnest/plan/simulate/simulation_text.h"

namespace ravnest::plan {
namespace {

constexpr double kLeft = 90;
constexpr double kRight = 110;
constexpr double kPlotTop = 92;
constexpr double kPlotHeight = 320;
constexpr double kNames = 150;  // below the axis
constexpr double kLeastWidth = 560;
constexpr double kMostWidth = 1400;
constexpr double kStepWidth = 90;
constexpr double kNameWidth = 24;  // a turned name needs that much
constexpr std::string_view kKept = "#d97706";
constexpr std::string_view kAnew = "#2563eb";

// The least of 1, 2, 2.5 and 5 times a power of ten that is not below `value`.
double round_up(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double step : {1.0, 2.0, 2.5, 5.0}) {
    if (step * power >= value * (1 - 1e-9)) return step * power;
  }
  return 10 * power;
}

class Plot {
 public:
  explicit Plot(const std::vector<SimulatedStep>& steps)
      : steps_(steps), width_(std::clamp(kStepWidth * static_cast<double>(steps.size()), kLeastWidth, kMostWidth)) {
    double most = 0;
    for (const SimulatedStep& step : steps)
      most = std::max({most, step.kept.samples_per_s, step.anew ? step.anew->samples_per_s : 0});
    tick_ = most > 0 ? round_up(most / 5) : 1;
    top_ = most > 0 ? tick_ * std::ceil(most / tick_ - 1e-9) : 1;
  }

  std::string run() {
    const std::string title = "Samples per second over the events";
    drawing_.words(kLeft, 36, title, {.size = 20, .bold = true});
    draw_legend();
    draw_axes();
    // The kept curve last: where both are equal it stays seen, being dashed.
    draw_curve(text("stroke=\"", kAnew, "\" stroke-width=\"3\""), [](const SimulatedStep& step) {
      return step.anew ? std::optional(step.anew->samples_per_s) : std::nullopt;
    });
    draw_curve(text("stroke=\"", kKept, "\" stroke-width=\"3\" stroke-dasharray=\"7 4\""),
               [](const SimulatedStep& step) { return std::optional(step.kept.samples_per_s); });
    draw_hints();
    return drawing_.document(kLeft + width_ + kRight, kPlotTop + kPlotHeight + kNames, title);
  }

 private:
  double x(std::size_t step) const {
    return kLeft + width_ * static_cast<double>(step) / static_cast<double>(std::max<std::size_t>(1, steps_.size()));
  }
  double y(double value) const { return kPlotTop + kPlotHeight * (1 - value / top_); }

  void draw_legend() {
    drawing_.line(kLeft, 60, kLeft + 36, 60,
                  text("stroke=\"", kKept, "\" stroke-width=\"3\" stroke-dasharray=\"7 4\""));
    drawing_.words(kLeft + 44, 64, "the plan of the start, kept");
    drawing_.line(kLeft + 240, 60, kLeft + 276, 60, text("stroke=\"", kAnew, "\" stroke-width=\"3\""));
    drawing_.words(kLeft + 284, 64, "planned anew after each event");
  }

  void draw_axes() {
    for (int i = 0; i * tick_ <= top_ * (1 + 1e-9); ++i) {
      const double level = y(i * tick_);
      drawing_.line(kLeft, level, kLeft + width_, level, "stroke=\"#e5e7eb\"");
      drawing_.words(kLeft - 8, level + 4, quantity(i * tick_, ""), {.size = 11, .colour = kGrey, .anchor = "end"});
    }
    drawing_.words(24, kPlotTop + kPlotHeight / 2, "samples/s", {.colour = kGrey, .anchor = "middle", .turned = -90});
    drawing_.line(kLeft, kPlotTop, kLeft, kPlotTop + kPlotHeight, "stroke=\"#9ca3af\"");
    drawing_.line(kLeft, kPlotTop + kPlotHeight, kLeft + width_, kPlotTop + kPlotHeight, "stroke=\"#9ca3af\"");
    const double room = width_ / static_cast<double>(std::max<std::size_t>(1, steps_.size()));
    const auto every = static_cast<std::size_t>(std::max(1.0, std::ceil(kNameWidth / room)));
    for (std::size_t i = 0; i < steps_.size(); i += every) {
      const double axis = kPlotTop + kPlotHeight;
      drawing_.line(x(i), axis, x(i), axis + 6, "stroke=\"#9ca3af\"");
      drawing_.words(x(i) + 4, axis + 20, shortened(steps_[i].event, 28), {.size = 11, .turned = 35});
    }
  }

  template <class Value>
  void draw_curve(const std::string& style, Value value) {
    std::string curve;
    bool drawing = false;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const std::optional<double> level = value(steps_[i]);
      if (level) curve += text(drawing ? "L" : "M", x(i), " ", y(*level), "H", x(i + 1));
      drawing = level.has_value();
    }
    if (!curve.empty()) drawing_.path(curve, text("fill=\"none\" stroke-linejoin=\"round\" ", style));
  }

  void draw_hints() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const SimulatedStep& step = steps_[i];
      drawing_.begin_group(text(
          step.event, ": kept ", quantity(step.kept.samples_per_s, ""), " samples/s (", limit_words(step.kept), "); ",
          step.anew
              ? text("anew ", quantity(step.anew->samples_per_s, ""), " samples/s (", limit_words(*step.anew), ")")
              : text("no plan: ", step.no_plan)));
      drawing_.rectangle(x(i), kPlotTop, x(i + 1) - x(i), kPlotHeight, "fill=\"#000000\" fill-opacity=\"0\"");
      if (!step.anew)
        drawing_.words((x(i) + x(i + 1)) / 2, kPlotTop + 14, "no plan",
                       {.size = 11, .colour = kAnew, .anchor = "middle"});
      drawing_.end_group();
    }
  }

  const std::vector<SimulatedStep>& steps_;
  double width_;
  double tick_ = 1;
  double top_ = 1;
  Drawing drawing_;
};

}  // namespace

std::string simulation_svg(const std::vector<SimulatedStep>& steps) { return Plot(steps).run(); }

}  // namespace ravnest::plan
