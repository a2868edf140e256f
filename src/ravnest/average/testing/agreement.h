// Agreements side by side, for tests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "ravnest/average/agreement.h"

namespace ravnest::average {

// Agreements that hear each other at once, unless a message is held back.
class Clusters {
 public:
  explicit Clusters(int count, bool connected = true) {
    for (int i = 0; i < count; ++i) agreements_.emplace_back(i, count);
    for (int a = 0; a < count && connected; ++a) {
      for (int b = a + 1; b < count; ++b) connect(a, b);
    }
  }

  Agreement& operator[](int index) { return agreements_[static_cast<std::size_t>(index)]; }

  void connect(int a, int b) {
    links_[{a, b}] = links_[{b, a}] = true;
    take(a, (*this)[a].on_peer(b, true));
    take(b, (*this)[b].on_peer(a, true));
    deliver();
  }
  // What is under way between them is gone; who hears of it when is up to the test.
  void cut(int a, int b) {
    links_[{a, b}] = links_[{b, a}] = false;
    std::erase_if(messages_, [&](const Message& m) { return !links_[{m.from, m.to}]; });
  }
  void lose(int at, int lost) {
    cut(at, lost);
    take(at, (*this)[at].on_peer(lost, false));
    deliver();
  }
  void crash(int index) {
    for (int other = 0; other < count(); ++other) {
      if (other != index && links_[{index, other}]) lose(other, index);
    }
  }
  // From the next such message on nothing arrives at the cluster.
  template <class Said>
  void hold_back(int to) {
    held_back_[to] = [](const wire::Averaging& message) { return std::holds_alternative<Said>(message); };
  }
  void let_through(int to) {
    held_back_.erase(to);
    deliver();
  }

  void enter(int index, double weight = 1) { act(index, (*this)[index].enter(weight)); }
  void finish(int index, double weight = 1) { act(index, (*this)[index].finish(weight)); }
  void complete(int index) { act(index, (*this)[index].complete(begun[index].attempt)); }
  void act(int index, Agreement::Actions actions) {
    take(index, std::move(actions));
    deliver();
  }
  void hold_round(double weight = 1) {
    for (int i = 0; i < count(); ++i) enter(i, weight);
    for (int i = 0; i < count(); ++i) complete(i);
  }

  template <class Said>
  int sent(int to) const {
    return static_cast<int>(std::ranges::count_if(
        sent_, [to](const auto& each) { return each.first == to && std::holds_alternative<Said>(each.second); }));
  }
  int count() const { return static_cast<int>(agreements_.size()); }
  std::vector<int> participants(int index) {
    std::vector<int> participants;
    for (const wire::Participant& participant : begun[index].participants)
      participants.push_back(static_cast<int>(participant.cluster));
    return participants;
  }
  std::vector<double> weights(int index) {
    std::vector<double> weights;
    for (const wire::Participant& participant : begun[index].participants) weights.push_back(participant.weight);
    return weights;
  }

  std::map<int, Attempt> begun;                    // the last
  std::map<int, std::vector<std::uint64_t>> held;  // rounds
  std::map<int, bool> last;                        // of the last one that held
  std::map<int, int> outs;

 private:
  struct Message {
    int from = 0;
    int to = 0;
    wire::Averaging message;
  };

  void take(int index, Agreement::Actions actions) {
    for (Agreement::Action& action : actions) {
      if (auto* send = std::get_if<Agreement::Send>(&action)) {
        sent_.emplace_back(send->to, send->message);
        if (links_[{index, send->to}]) messages_.push_back({index, send->to, std::move(send->message)});
      } else if (auto* begin = std::get_if<Agreement::Begin>(&action)) {
        begun[index] = begin->attempt;
      } else if (auto* holds = std::get_if<Agreement::Holds>(&action)) {
        held[index].push_back(holds->round);
        last[index] = holds->last;
      } else {
        ++outs[index];
      }
    }
  }

  void deliver() {
    std::map<int, bool> stopped;
    for (std::size_t i = 0; i < messages_.size();) {
      const auto back = held_back_.find(messages_[i].to);
      if (back != held_back_.end() && back->second(messages_[i].message)) stopped[messages_[i].to] = true;
      if (stopped[messages_[i].to]) {
        ++i;
        continue;
      }
      const Message next = messages_[i];
      messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(i));
      take(next.to, (*this)[next.to].on_message(next.from, next.message));
      i = 0;
      stopped.clear();
    }
  }

  std::vector<Agreement> agreements_;
  std::map<std::pair<int, int>, bool> links_;
  std::map<int, bool (*)(const wire::Averaging&)> held_back_;
  std::vector<std::pair<int, wire::Averaging>> sent_;  // to whom
  std::deque<Message> messages_;
};

}  // namespace ravnest::average
