#include "ravnest/base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <utility>

#include "ravnest/base/printable.h"

namespace ravnest {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kDebug: return spdlog::level::debug;
    case Level::kInfo: return spdlog::level::info;
    case Level::kWarning: return spdlog::level::warn;
    case Level::kError: return spdlog::level::err;
    case Level::kOff: return spdlog::level::off;
  }
  return spdlog::level::off;
}

std::shared_ptr<spdlog::logger> make_target(std::string name, Level threshold, spdlog::sink_ptr sink) {
  auto target = std::make_shared<spdlog::logger>(std::move(name), std::move(sink));
  target->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %n: %v");
  target->set_level(to_spdlog(threshold));
  target->flush_on(spdlog::level::debug);
  // Nobody can be told that telling failed; spdlog's own way writes to standard error once a second.
  target->set_error_handler([](const std::string&) {});
  return target;
}

}  // namespace

Logger::Logger(std::string name, Level threshold)
    : target_(make_target(std::move(name), threshold, std::make_shared<spdlog::sinks::stderr_sink_mt>())) {}

Logger::Logger(std::string name, Level threshold, std::ostream& out)
    : target_(make_target(std::move(name), threshold, std::make_shared<spdlog::sinks::ostream_sink_mt>(out))) {}

Logger Logger::named(std::string name) const { return Logger(target_->clone(std::move(name))); }

bool Logger::enabled(Level level) const { return level != Level::kOff && target_->should_log(to_spdlog(level)); }

void Logger::log(Level level, std::string_view message) const {
  if (!enabled(level)) return;
  target_->log(to_spdlog(level), printable(printable_reason(message)));
}

}  // namespace ravnest
