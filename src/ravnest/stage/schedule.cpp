// The names of schedules.
#include "ravnest/stage/stage.h"

namespace ravnest::stage {

std::string_view name(Schedule schedule) {
  switch (schedule) {
    case Schedule::kAsync: return "async";
    case Schedule::kSync: return "sync";
    case Schedule::kGpipe: return "gpipe";
  }
  return "unknown";
}

Result<Schedule> parse_schedule(std::string_view written) {
  for (const Schedule schedule : {Schedule::kAsync, Schedule::kSync, Schedule::kGpipe}) {
    if (written == name(schedule)) return schedule;
  }
  return invalid("there is no schedule \"", written, "\"; there are async, sync and gpipe");
}

}  // namespace ravnest::stage
