// What the tensors of a data-parallel run go by.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "ravnest/base/status.h"
#include "ravnest/strategy/communicate/communicator.h"
#include "ravnest/strategy/communicate/nccl_communicator.h"
#include "ravnest/strategy/communicate/waiter.h"
#include "ravnest/strategy/launch/place.h"

namespace ravnest::train {

enum class Backend : std::uint8_t {
  kAuto,  // NCCL where every rank can, otherwise the ring
  kRing,  // over TLS, by way of the host
  kNccl,
};

Result<Backend> parse_backend(std::string_view name);  // "auto", "ring", "nccl"

struct BackendOptions {
  Backend asked = Backend::kAuto;
  bool trusted_network = false;
  strategy::Place place = {};
  c10::Device device = c10::kCPU;
  bool encrypted = true;  // the ring goes over TLS; not where ranks of one machine meet without a token
};

// What was chosen, the same on all ranks.
struct ChosenBackend {
  std::unique_ptr<strategy::NcclCommunicator> nccl;  // not connected yet; none: tensors go over the ring
  std::string why;                                   // for people: "NCCL 2.28.9", "the ring over TLS, since rank_1 ..."
};

// The ranks agree over `ring`. kInvalid, on all ranks, where NCCL was asked for and some rank can not.
Result<ChosenBackend> choose_backend(const BackendOptions& options, strategy::Communicator& ring,
                                     const strategy::Waiter& wait);

}  // namespace ravnest::train
