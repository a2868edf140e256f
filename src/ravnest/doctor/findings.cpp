#include "ravnest/doctor/findings.h"

#include <algorithm>

#include "ravnest/base/text.h"

namespace ravnest::doctor {
namespace {

constexpr std::size_t kVerdictWidth = 9;

std::string counted(std::ptrdiff_t count, std::string_view what) {
  return text(count, " ", what, count == 1 ? "" : "s");
}

}  // namespace

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk: return "ok";
    case Verdict::kWarning: return "warning";
    case Verdict::kProblem: return "PROBLEM";
  }
  return "unknown";
}

std::string line(const Finding& finding) {
  std::string written(name(finding.verdict));
  written.resize(kVerdictWidth, ' ');
  return text(written, finding.node, finding.node.empty() ? "" : ": ", finding.sentence);
}

std::ostream& operator<<(std::ostream& out, const Finding& finding) { return out << line(finding); }

bool has_problem(const std::vector<Finding>& findings) {
  return std::ranges::any_of(findings, [](const Finding& each) { return each.verdict == Verdict::kProblem; });
}

std::string summary(const std::vector<Finding>& findings) {
  const auto count = [&](Verdict verdict) { return std::ranges::count(findings, verdict, &Finding::verdict); };
  const auto problems = count(Verdict::kProblem);
  const auto warnings = count(Verdict::kWarning);
  const std::string checks = counted(std::ssize(findings), "check");
  if (problems == 0 && warnings == 0) return text(checks, ": all is well");
  if (problems == 0) return text(checks, ": no problem, ", counted(warnings, "warning"));
  return text(checks, ": ", counted(problems, "problem"), warnings == 0 ? "" : ", ",
              warnings == 0 ? "" : counted(warnings, "warning"));
}

}  // namespace ravnest::doctor
