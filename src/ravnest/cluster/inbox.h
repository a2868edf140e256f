// What other stages sent, kept until the stage's machine says that it is its turn. Plain storage; one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "ravnest/wire/message.h"

namespace ravnest::cluster {

class Inbox {
 public:
  void add(wire::Forward forward) { forwards_[forward.head.pass].push_back(std::move(forward)); }
  void add(wire::Backward backward) { backwards_[backward.pass].push_back(std::move(backward)); }
  void add(int from, wire::TiedTensors tied) {
    if (tied.gradients)
      tied_gradients_[tied.number].push_back(std::move(tied));
    else
      tied_values_[from].push_back(std::move(tied));
  }

  std::vector<wire::Forward> take_forwards(std::uint64_t pass) { return take(forwards_, pass); }
  std::vector<wire::Backward> take_backwards(std::uint64_t pass) { return take(backwards_, pass); }
  std::vector<wire::TiedTensors> take_tied_gradients(std::uint64_t number) { return take(tied_gradients_, number); }
  // The oldest of that stage; there must be one.
  wire::TiedTensors take_tied_values(int from) {
    wire::TiedTensors values = std::move(tied_values_.at(from).front());
    tied_values_.at(from).pop_front();
    return values;
  }

 private:
  template <class T>
  static std::vector<T> take(std::map<std::uint64_t, std::vector<T>>& from, std::uint64_t number) {
    const auto found = from.extract(number);
    return found.empty() ? std::vector<T>() : std::move(found.mapped());
  }

  std::map<std::uint64_t, std::vector<wire::Forward>> forwards_;            // by pass
  std::map<std::uint64_t, std::vector<wire::Backward>> backwards_;          // by pass
  std::map<std::uint64_t, std::vector<wire::TiedTensors>> tied_gradients_;  // by pass or update
  std::map<int, std::deque<wire::TiedTensors>> tied_values_;                // by keeper
};

}  // namespace ravnest::cluster
