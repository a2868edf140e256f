// transport_faults [COUNT]: that many cuts in the clear, as many under TLS, and as many kills of a process (default
// 1000).
#include "ravnest/transport/tcp/testing/faults.h"

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>

using ravnest::transport::tcp::FaultsOutcome;

namespace {

bool run(const char* what, const std::function<FaultsOutcome()>& faults) {
  const auto start = std::chrono::steady_clock::now();
  const FaultsOutcome outcome = faults();
  const double took_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf(
      "transport_faults: %llu %s in %.0f s: %llu messages arrived, %llu failed, %llu losses reported, %llu "
      "connections; %s\n",
      static_cast<unsigned long long>(outcome.faults), what, took_s, static_cast<unsigned long long>(outcome.arrived),
      static_cast<unsigned long long>(outcome.failed), static_cast<unsigned long long>(outcome.losses),
      static_cast<unsigned long long>(outcome.connections),
      outcome.violation.empty() ? "every promise kept" : outcome.violation.c_str());
  std::fflush(stdout);
  return outcome.violation.empty();
}

}  // namespace

int main(int count, char** arguments) {
  using namespace ravnest::transport::tcp;
  const std::uint64_t faults = count > 1 ? std::stoull(arguments[1]) : 1000;
  const bool kept = run("kills", [&] { return survive_kills(faults, 3, ECHO_NODE); }) &&
                    run("cuts in the clear", [&] { return survive_cuts(faults, 1, false); }) &&
                    run("cuts under TLS", [&] { return survive_cuts(faults, 2, true); });
  return kept ? 0 : 1;
}
