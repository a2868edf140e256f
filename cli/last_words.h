// What processes that end together say last: a failure of one is a sentence of all, and people want to read it once.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ravnest::cli {

// What stands before the sentence with which the command ends; what it says in more lines stands below that.
inline constexpr std::string_view kOwn = "ravnest: ";
std::string in_lines(const std::string& sentence);

// Takes the lines of several nodes, and holds back the line with which a node ends where it is a sentence of ours
// ("ravnest: node_1 (stage 1) failed: ..."), with what it says in more lines. For one thread.
class LastWords {
 public:
  // A node's next line. Returns what is to be shown of it now: what was held back turns out not to have been its last.
  std::vector<std::string> on_line(const std::string& node, std::string_view line);
  // The node has ended. Returns what is to be shown of it after all: a node that did well has no last words.
  std::vector<std::string> on_end(const std::string& node, int status);

  // Nothing that the node has held back is said in the end.
  void forget(const std::string& node) { held_.erase(node); }

  // What is left to be said, without the "ravnest: ": each sentence once, and none that is part of another, since the
  // others put the node's name before what it says itself.
  std::vector<std::string> sentences() const;
  // Of the first node that failed, its last line with its name: for where no node has left a sentence of ours, as when
  // all fail by themselves before they meet. Empty where none has failed.
  std::string first_failure() const;

 private:
  std::map<std::string, std::string> held_;  // by node; of several lines where they belong together
  std::map<std::string, std::string> last_;  // by node: its last line with something in it
  std::optional<std::string> failed_;        // the first node that did
};

}  // namespace ravnest::cli
