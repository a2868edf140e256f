#include "ravnest/stage/call.h"

#include <utility>

namespace ravnest::stage {

void Call::begin(std::string word) {
  begun_ = true;
  ready_.insert_or_assign(self_, std::move(word));
  accounts_.clear();
  closing_.reset();
}

void Call::give_account(std::string account) { accounts_.insert_or_assign(self_, std::move(account)); }

void Call::close(std::string closing) {
  closing_ = std::move(closing);
  ready_.clear();
  begun_ = false;
}

Status Call::on_ready(int from, std::string word) {
  if (self_ != 0) return invalid("only the root is told who is ready");
  if (!ready_.emplace(from, std::move(word)).second) return invalid("stage ", from, " was ready before");
  return {};
}

Status Call::on_account(int from, std::string account) {
  if (self_ != 0 || !open()) return invalid("stage ", from, " gives account of a call that is not under way");
  if (!accounts_.emplace(from, std::move(account)).second) return invalid("stage ", from, " gave account before");
  return {};
}

Status Call::on_closed(std::string closing) {
  if (self_ == 0 || !accounted() || closing_) return invalid("a call is closed that is not over here");
  close(std::move(closing));
  return {};
}

std::vector<int> Call::missing() const {
  std::vector<int> stages;
  for (int stage = 0; stage < count_; ++stage) {
    if (!ready_.contains(stage)) stages.push_back(stage);
  }
  return stages;
}

std::vector<std::string> Call::values(const std::map<int, std::string>& by_stage) {
  std::vector<std::string> values;
  for (const auto& [stage, value] : by_stage) values.push_back(value);
  return values;
}

}  // namespace ravnest::stage
