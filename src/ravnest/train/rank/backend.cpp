#include "ravnest/train/rank/backend.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "ravnest/strategy/communicate/nccl_library.h"
#include "ravnest/strategy/communicate/texts.h"
#include "ravnest/strategy/launch/rendezvous.h"

namespace ravnest::train {
namespace {

// Why this rank's tensors can not go by NCCL; empty where they can.
std::string obstacle(const BackendOptions& options) {
  if (options.asked == Backend::kRing) return "backend = \"ring\" asks for it";
  if (options.device.is_cpu()) return "computes on the CPU";
  if (options.place.nodes > 1 && !options.trusted_network) {
    return "is on another machine than others, and NCCL does not encrypt: trusted_network = true says that nobody else "
           "is on that network";
  }
  const Status there = strategy::nccl_available();
  return there.ok() ? std::string() : text("has no NCCL: ", there.message());
}

}  // namespace

Result<Backend> parse_backend(std::string_view name) {
  constexpr std::array<std::string_view, 3> kNames = {"auto", "ring", "nccl"};
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return invalid("there is no backend \"", name, "\"; there are auto, ring and nccl");
  return static_cast<Backend>(found - kNames.begin());
}

Result<ChosenBackend> choose_backend(const BackendOptions& options, strategy::Communicator& ring,
                                     const strategy::Waiter& wait) {
  auto obstacles = strategy::gather_texts(ring, obstacle(options), c10::kCPU, wait);
  if (!obstacles.ok()) return obstacles.status();
  const auto first = std::ranges::find_if(*obstacles, [](const std::string& each) { return !each.empty(); });
  if (first != obstacles->end()) {
    const bool is_asked = options.asked == Backend::kRing;
    const std::string who = strategy::rank_name(static_cast<int>(first - obstacles->begin()));
    if (options.asked == Backend::kNccl) return invalid("backend = \"nccl\" can not be: ", who, " ", *first);
    const std::string name = options.encrypted ? "the ring over TLS" : "the ring, on this machine alone";
    return ChosenBackend{nullptr, is_asked ? name : text(name, ", since ", who, " ", *first)};
  }
  strategy::NcclOptions nccl;
  nccl.rank = ring.rank();
  nccl.world = ring.world();
  nccl.device = options.device;
  nccl.share_from_first = [&](std::span<std::byte> id) -> Status {
    const at::Tensor bytes = at::empty({static_cast<std::int64_t>(id.size())}, at::kByte);
    std::memcpy(bytes.mutable_data_ptr(), id.data(), id.size());
    const auto shared = ring.broadcast(bytes, 0);
    if (Status arrived = wait(*shared); !arrived.ok()) return arrived;
    std::memcpy(id.data(), bytes.const_data_ptr(), id.size());
    return {};
  };
  auto opened = strategy::NcclCommunicator::open(std::move(nccl));
  if (!opened.ok()) return opened.status();
  return ChosenBackend{std::move(*opened), "NCCL"};
}

}  // namespace ravnest::train
