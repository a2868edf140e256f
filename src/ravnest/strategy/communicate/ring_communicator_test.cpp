#include "ravnest/strategy/communicate/ring_communicator.h"

#include <gtest/gtest.h>

#include "ravnest/strategy/communicate/alone.h"
#include "ravnest/strategy/communicate/testing/communicator_conformance.h"
#include "ravnest/strategy/communicate/testing/ring_ranks.h"

namespace ravnest::strategy {
namespace {

class AloneRank final : public LocalRanks {
 public:
  Communicator& of(int /*rank*/) override { return communicator_; }
  void close(int /*rank*/) override {}
  void lose(int /*rank*/) override {}

 private:
  AloneCommunicator communicator_;
};

template <class Nodes>
std::unique_ptr<LocalRanks> over(int world, at::Device device = at::kCPU) {
  return std::make_unique<RingRanks>(std::make_unique<Nodes>(rank_names(world)), device);
}

Backend inproc() {
  return {.name = "Inproc", .make = [](int world) { return over<collective::InprocNodes>(world); }};
}
Backend tls() {
  return {.name = "Tls", .make = [](int world) { return over<collective::TlsNodes>(world); }};
}
Backend gpu() {
  return {.name = "Gpu",
          .make = [](int world) { return over<collective::InprocNodes>(world, at::Device(at::kCUDA, 0)); },
          .available = [] { return at::hasCUDA(); }};
}
Backend alone() {
  return {.name = "Alone", .make = [](int /*world*/) { return std::make_unique<AloneRank>(); }};
}

INSTANTIATE_TEST_SUITE_P(Ring, CommunicatorConformance, in_worlds({inproc(), tls(), gpu()}, {1, 2, 3, 4}),
                         name_of_world);
INSTANTIATE_TEST_SUITE_P(Alone, CommunicatorConformance, in_worlds({alone()}, {1}), name_of_world);

}  // namespace
}  // namespace ravnest::strategy
