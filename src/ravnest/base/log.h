// Lines for people who watch or look after a run.
//
// A Logger is a small value that shares its target with its copies; it is passed to what logs, there is no global one.
// All calls are safe from any thread, and a line is never torn. A message is one line: control characters in it,
// such as a newline that a peer sent, are written as '?'. Logging never fails and never throws.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>

#include "ravnest/base/status.h"
#include "ravnest/base/text.h"

namespace spdlog {
class logger;
}

namespace ravnest {

enum class Level : unsigned char {
  kDebug,    // for developers
  kInfo,     // what a run does
  kWarning,  // went on, but someone should know
  kError,    // something asked for did not happen
  kOff,      // as a threshold: nothing
};

class Logger {
 public:
  // To standard error. `name` stands in each line: the node's, for instance.
  explicit Logger(std::string name = "ravnest", Level threshold = Level::kInfo);
  // To a stream, which must outlive all copies and be used by no one else meanwhile.
  Logger(std::string name, Level threshold, std::ostream& out);

  // The same target under another name.
  Logger named(std::string name) const;

  bool enabled(Level level) const;
  void log(Level level, std::string_view message) const;

  // The parts are put together only where the level is enabled.
  template <class... Ts>
  void debug(const Ts&... parts) const {
    log_parts(Level::kDebug, parts...);
  }
  template <class... Ts>
  void info(const Ts&... parts) const {
    log_parts(Level::kInfo, parts...);
  }
  template <class... Ts>
  void warning(const Ts&... parts) const {
    log_parts(Level::kWarning, parts...);
  }
  template <class... Ts>
  void error(const Ts&... parts) const {
    log_parts(Level::kError, parts...);
  }

 private:
  explicit Logger(std::shared_ptr<spdlog::logger> target) : target_(std::move(target)) {}

  template <class... Ts>
  void log_parts(Level level, const Ts&... parts) const {
    if (enabled(level)) log(level, text(parts...));
  }

  std::shared_ptr<spdlog::logger> target_;
};

}  // namespace ravnest
