// How a call begins and ends on all stages of a cluster at once: a state machine.
//
// A call is what users make on every node: train(), evaluate(), pred(). No pass of it begins before every stage has
// said that it is ready for it, so that no pass meets a stage that is still in the call before. It ends in three steps:
// the root says that all passes are done (wire::Over), every stage does what is left to be done and gives account of
// itself, and when the root has all accounts it closes the call. So a call is through everywhere, or fails everywhere.
// Not thread-safe; one owner. What comes is checked: what does not fit is kInvalid and changes nothing.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"

namespace ravnest::stage {

class Call {
 public:
  Call(int self, int count) : self_(self), count_(count) {}

  // This stage enters its next call; `word` is what it knows of it. To be told to the root.
  void begin(std::string word);
  // This stage has done all that was left to do. To be told to the root.
  void give_account(std::string account);
  // Root, with all accounts: the call is closed. To be told to all others.
  void close(std::string closing);

  // Root. A stage may be ready for the next call before the root is.
  Status on_ready(int from, std::string word);
  Status on_account(int from, std::string account);
  // Others.
  Status on_closed(std::string closing);

  // Root: everyone is ready, and passes may begin.
  bool open() const { return begun_ && missing().empty(); }
  // Root: those who are not ready yet.
  std::vector<int> missing() const;
  // Root, when open: what each stage said that it is ready for, by stage.
  std::vector<std::string> words() const { return values(ready_); }
  bool accounted() const { return accounts_.contains(self_); }
  bool all_accounted() const { return static_cast<int>(accounts_.size()) == count_; }
  std::vector<std::string> accounts() const { return values(accounts_); }
  const std::optional<std::string>& closing() const { return closing_; }

  // What the messages are called on the wire.
  static constexpr std::string_view kReady = "ready";
  static constexpr std::string_view kAccount = "account";
  static constexpr std::string_view kClosed = "closed";

 private:
  static std::vector<std::string> values(const std::map<int, std::string>& by_stage);

  int self_;
  int count_;
  bool begun_ = false;
  std::map<int, std::string> ready_;     // root: all stages' for this call, and for the next once this one is closed
  std::map<int, std::string> accounts_;  // root: all stages'; others: their own
  std::optional<std::string> closing_;
};

}  // namespace ravnest::stage
