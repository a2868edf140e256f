#include "ravnest/doctor/findings.h"

#include <algorithm>

#include "ravnest/base/text.h"

namespace ravnest::doctor {
namespace {

constexpr std::size_t kSeverityWidth = 9;

std::string counted(std::ptrdiff_t count, std::string_view what) {
  return text(count, " ", what, count == 1 ? "" : "s");
}

}  // namespace

std::string_view name(Severity severity) {
  switch (severity) {
    case Severity::kOk: return "ok";
    case Severity::kWarning: return "warning";
    case Severity::kProblem: return "PROBLEM";
  }
  return "unknown";
}

std::string line(const Finding& finding) {
  std::string written(name(finding.severity));
  written.resize(kSeverityWidth, ' ');
  return text(written, finding.node, finding.node.empty() ? "" : ": ", finding.sentence);
}

std::ostream& operator<<(std::ostream& out, const Finding& finding) { return out << line(finding); }

bool has_problem(const std::vector<Finding>& findings) {
  return std::ranges::any_of(findings, [](const Finding& each) { return each.severity == Severity::kProblem; });
}

std::string summary(const std::vector<Finding>& findings) {
  const auto count = [&](Severity severity) { return std::ranges::count(findings, severity, &Finding::severity); };
  const auto problems = count(Severity::kProblem);
  const auto warnings = count(Severity::kWarning);
  const std::string checks = counted(std::ssize(findings), "check");
  if (problems == 0 && warnings == 0) return text(checks, ": all is well");
  if (problems == 0) return text(checks, ": no problem, ", counted(warnings, "warning"));
  return text(checks, ": ", counted(problems, "problem"), warnings == 0 ? "" : ", ",
              warnings == 0 ? "" : counted(warnings, "warning"));
}

}  // namespace ravnest::doctor
