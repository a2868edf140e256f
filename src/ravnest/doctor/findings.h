// What an examination says, one line per check.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace ravnest::doctor {

enum class Severity : unsigned char {
  kOk,
  kWarning,  // training works, but something should be looked at
  kProblem,  // training will not work before this is mended
};
std::string_view name(Severity severity);  // "ok", "warning", "PROBLEM"
inline std::ostream& operator<<(std::ostream& out, Severity severity) { return out << name(severity); }

struct Finding {
  Severity severity = Severity::kOk;
  std::string node;      // the one that is examined; empty: the plan
  std::string sentence;  // where not ok, says what to do
};

// "PROBLEM  node_1: nothing listens at ...", without an end of line.
std::string line(const Finding& finding);
std::ostream& operator<<(std::ostream& out, const Finding& finding);

bool has_problem(const std::vector<Finding>& findings);
// "11 checks: 1 problem, 2 warnings"
std::string summary(const std::vector<Finding>& findings);

}  // namespace ravnest::doctor
