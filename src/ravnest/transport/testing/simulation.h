// A run of endpoints on a simulated network that does its worst, drawn from a seed, and a checker of what they
// promised.
//
// The endpoints are real; the network, its faults and the time are not (inproc::Network with a ManualClock). First
// comes a time of faults: messages of all priorities and sizes, delays, cuts, partitions, endpoints that end and come
// back, applications that stop reading. Then all faults end, and everything that is owed has to come. The same seed
// gives the same run, event by event.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace ravnest::transport {

struct SimulationOutcome {
  std::string violation;     // the first broken promise; empty: none
  std::uint64_t digest = 0;  // of everything that was seen, in order
  std::uint64_t accepted = 0;
  std::uint64_t arrived = 0;
  std::uint64_t failed = 0;  // completed with a failure
  std::uint64_t cuts = 0;
  std::uint64_t partitions = 0;
  std::uint64_t restarts = 0;
  std::uint64_t losses = 0;  // of peers, as reported

  // The sum of what was counted.
  SimulationOutcome& operator+=(const SimulationOutcome& other);
};

// `tell` is told every event, as a line.
SimulationOutcome simulate(std::uint64_t seed, const std::function<void(const std::string&)>& tell = {});

}  // namespace ravnest::transport
