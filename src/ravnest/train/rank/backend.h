// What the tensors of a data-parallel run go by.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "ravnest/base/status.h"
#include "ravnest/codec/codec.h"
#include "ravnest/strategy/communicate/communicator.h"
#include "ravnest/strategy/communicate/nccl_communicator.h"
#include "ravnest/strategy/communicate/waiter.h"
#include "ravnest/strategy/place/place.h"

namespace ravnest::train {

enum class Backend : std::uint8_t {
  kAuto,  // NCCL where every rank can, otherwise the ring
  kRing,  // over TLS, by way of the host
  kNccl,
};

Result<Backend> parse_backend(std::string_view name);  // "auto", "ring", "nccl"
std::string_view backend_name(Backend backend);

struct BackendOptions {
  Backend asked = Backend::kAuto;
  bool trusted_network = false;
  strategy::Place place = {};
  c10::Device device = c10::kCPU;
  bool encrypted = true;  // the ring goes over TLS; not where ranks of one machine meet without a token
  std::string gpu = {};   // which one it is, the same for whoever else has it; "": not known
  std::filesystem::path nccl_library = {};  // instead of torch's; one that works in the host's memory needs no GPU
};

// What was chosen, the same on all ranks.
struct ChosenBackend {
  std::unique_ptr<strategy::NcclCommunicator> nccl;  // not connected yet; none: tensors go over the ring
  std::string why;  // for people: "NCCL 2.28.9, since every rank has a GPU of its own", "the ring over TLS, since ..."
};

// The ranks agree over `ring`, and have asked for the same. kInvalid, on all ranks alike, where NCCL was asked for and
// some rank can not. Ranks that have the same GPU take the ring, unless NCCL was asked for, which then says what it
// thinks of that.
Result<ChosenBackend> choose_backend(const BackendOptions& options, strategy::Communicator& ring,
                                     const strategy::Waiter& wait);

// What becomes of compression, which is the ring's: NCCL sends gradients as they are.
struct UsedCompression {
  codec::Codec codec;
  std::string remark;  // for people, where it is not what was asked for
};
// kInvalid where NCCL and compression were both asked for.
Result<UsedCompression> compression_for(const codec::Codec& asked, Backend backend, bool by_nccl);

}  // namespace ravnest::train
