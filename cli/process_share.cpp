#include "process_share.h"

#include <poll.h>

#include <charconv>
#include <chrono>
#include <filesystem>
#include <optional>
#include <system_error>

#include "child_process.h"
#include "ravnest/base/file.h"

namespace ravnest::cli {
namespace {

// A pass of the smallest kind, so that what torch loads late is there too. No optimizer of torch's: making one loads
// torch's compiler, 40 MB, and a node's core steps the stock ones by itself.
constexpr const char* kScript =
    "import torch, ravnest\n"
    "weights = torch.ones(64, 64, requires_grad=True)\n"
    "(weights @ weights).sum().backward()\n"
    "print('VmHWM:', next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])\n";
constexpr std::chrono::seconds kPatience{60};
// What a node has beside that: threads, TLS, the directory of its archive (benchmarks/memory.py).
constexpr double kOfANodeGb = 0.0125;

// The number of kB after "VmHWM:".
std::optional<double> peak_gb(std::string_view status) {
  const std::size_t at = status.find("VmHWM:");
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t digits = status.find_first_of("0123456789", at);
  if (digits == std::string_view::npos) return std::nullopt;
  double kilobytes = 0;
  const auto read = std::from_chars(status.data() + digits, status.data() + status.size(), kilobytes);
  return read.ec == std::errc() ? std::optional(kilobytes * 1024 / 1e9) : std::nullopt;
}

std::optional<double> of_python() {
  std::error_code error;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path python = own.parent_path() / "python3";
  if (error || !std::filesystem::exists(python, error)) return std::nullopt;
  auto child = ChildProcess::start({.command = {python.string(), "-c", kScript}, .environment = {}});
  if (!child.ok()) return std::nullopt;
  pollfd ended{.fd = (*child)->exit_descriptor(), .events = POLLIN, .revents = 0};
  // Its output is a few lines: the pipe holds them until it is over.
  if (::poll(&ended, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) <= 0) return std::nullopt;
  std::optional<double> peak;
  const int status = (*child)->wait([&](std::string_view line) {
    if (line.starts_with("VmHWM:")) peak = peak_gb(line);
  });
  if (status != 0 || !peak) return std::nullopt;
  return *peak + kOfANodeGb;
}

}  // namespace

Result<ProcessShare> measure_process() {
  if (const auto python = of_python()) return ProcessShare{*python, "Python with torch and ravnest"};
  const Result<std::string> status = read_file("/proc/self/status");
  if (!status.ok()) return status.status();
  const auto own = peak_gb(*status);
  if (!own) return unavailable("/proc/self/status does not say how much memory this process takes");
  return ProcessShare{*own, "this program, as `ravnest node`"};
}

}  // namespace ravnest::cli
