// How progress is shown by commands that train: as wide as the terminal of standard error, or plainly into a file.
#pragma once

#include <unistd.h>

#include "ravnest/report/progress.h"

namespace ravnest::cli {

inline report::ProgressOptions terminal_progress() {
  report::ProgressOptions options;
  if (::isatty(STDERR_FILENO) == 1) options.columns = report::terminal_columns(STDERR_FILENO);
  return options;
}

}  // namespace ravnest::cli
