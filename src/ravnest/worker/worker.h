// What a stage computes, as its driver sees it: messages in, messages out.
//
// The driver knows when, the worker knows how. All calls come from one thread, in the order that stage.h promises.
// A failure, or an exception, ends the run with its message.
#pragma once

#include <cstdint>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/wire/message.h"

namespace ravnest::worker {

struct Outgoing {
  int stage = 0;
  wire::Message message;
};

// One update of the weights, with what rounds between clusters have to do with it.
struct Update {
  std::uint64_t number = 0;
  bool steps = true;             // with a step of the optimizer on all gradients since the last one
  std::uint64_t takes = 0;       // then the result of that round is taken in; 0: none
  std::uint64_t gives = 0;       // then the weights as they are go into that round; 0: none
  std::uint64_t checkpoint = 0;  // last of all a snapshot is taken for that checkpoint; 0: none is
};

class Worker {
 public:
  Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  virtual ~Worker() = default;

  // `parts` are the Forwards of all producers; the root's own has the model's inputs. Returns a Forward for each
  // consumer. The leaf returns a Report for the root, here or, of a pass that trains, from `backward`.
  virtual Result<std::vector<Outgoing>> forward(const wire::PassHead& head, std::vector<wire::Forward> parts) = 0;
  // `answers` are the Backwards of all consumers, `tied` what came for weights that this stage keeps, where that comes
  // pass by pass. Returns a Backward for each producer, and such gradients for the keepers.
  virtual Result<std::vector<Outgoing>> backward(const wire::PassHead& head, std::vector<wire::Backward> answers,
                                                 std::vector<wire::TiedTensors> tied) = 0;
  // `tied` as above, where that comes update by update. Returns values for those who use weights kept here, and
  // gradients for the keepers.
  virtual Result<std::vector<Outgoing>> update(const Update& update, std::vector<wire::TiedTensors> tied) = 0;
  // An averaging pass: takes in the result of the round `takes`, if any, and gives the weights to the round `gives`.
  virtual Status give(std::uint64_t gives, std::uint64_t takes) = 0;
  // A snapshot pass: takes one for that checkpoint.
  virtual Status snapshot(std::uint64_t checkpoint) = 0;
  // New values of weights that another stage keeps.
  virtual Status adopt(wire::TiedTensors values) = 0;
};

}  // namespace ravnest::worker
