#include "ravnest/train/loop/rates.h"

#include <stdexcept>

#include "ravnest/optim/schedules/schedule.h"

namespace ravnest::train {

Result<std::function<void(std::uint64_t)>> make_rates(const LrScheduleConfig& config, optim::Optimizer& optimizer) {
  if (optim::same_name(config.name, "ReduceLROnPlateau"))
    return invalid("ReduceLROnPlateau needs a metric at each step, which a stage does not have");
  auto made = optim::make_schedule(config.name, config.options, optimizer);
  if (!made.ok()) return made.status();
  const std::shared_ptr<optim::LrSchedule> schedule = std::move(*made);
  return std::function<void(std::uint64_t)>(
      [schedule, lines = config.lines, steps = std::uint64_t{0}](std::uint64_t count) mutable {
        for (; steps < count; ++steps) {
          if (const Status stepped = schedule->step(); !stepped.ok())
            throw std::runtime_error(lines.at(stepped).message());
        }
      });
}

}  // namespace ravnest::train
