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

constexpr std::array<std::string_view, 3> kBackends = {"auto", "ring", "nccl"};

// Why this rank's tensors can not go by NCCL; empty where they can.
std::string obstacle(const BackendOptions& options) {
  if (options.asked == Backend::kRing) return "backend = \"ring\" asks for it";
  if (options.device.is_cpu() && options.nccl_library.empty()) return "computes on the CPU";
  if (options.place.nodes > 1 && !options.trusted_network) {
    return "is on another machine than others, and NCCL does not encrypt: trusted_network = true says that nobody else "
           "is on that network";
  }
  const Status there = strategy::load_nccl(options.nccl_library).status();
  return there.ok() ? std::string() : text("has no NCCL: ", there.message());
}

// "rank_0 and rank_1 have the same GPU"; empty where each has its own.
std::string shared_gpu(const std::vector<std::string>& gpus) {
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const auto same = std::find(gpus.begin() + static_cast<std::ptrdiff_t>(i) + 1, gpus.end(), gpus[i]);
    if (gpus[i].empty() || same == gpus.end()) continue;
    return text(strategy::rank_name(static_cast<int>(i)), " and ",
                strategy::rank_name(static_cast<int>(same - gpus.begin())), " have the same GPU");
  }
  return {};
}

}  // namespace

Result<Backend> parse_backend(std::string_view name) {
  const auto found = std::ranges::find(kBackends, name);
  if (found == kBackends.end()) return invalid("there is no backend \"", name, "\"; there are auto, ring and nccl");
  return static_cast<Backend>(found - kBackends.begin());
}

std::string_view backend_name(Backend backend) { return kBackends[static_cast<std::size_t>(backend)]; }

Result<ChosenBackend> choose_backend(const BackendOptions& options, strategy::Communicator& ring,
                                     const strategy::Waiter& wait) {
  const std::string ring_name = options.encrypted ? "the ring over TLS" : "the ring, on this machine alone";
  auto obstacles = strategy::gather_texts(ring, obstacle(options), c10::kCPU, wait);
  if (!obstacles.ok()) return obstacles.status();
  const auto first = std::ranges::find_if(*obstacles, [](const std::string& each) { return !each.empty(); });
  if (first != obstacles->end()) {
    const bool is_asked = options.asked == Backend::kRing;
    const std::string who = strategy::rank_name(static_cast<int>(first - obstacles->begin()));
    if (options.asked == Backend::kNccl) return invalid("backend = \"nccl\" can not be: ", who, " ", *first);
    return ChosenBackend{nullptr, is_asked ? ring_name : text(ring_name, ", since ", who, " ", *first)};
  }
  const auto gpus = strategy::gather_texts(ring, options.gpu, c10::kCPU, wait);
  if (!gpus.ok()) return gpus.status();
  if (const std::string shared = shared_gpu(*gpus); !shared.empty() && options.asked == Backend::kAuto)
    return ChosenBackend{nullptr, text(ring_name, ", since ", shared)};
  strategy::NcclOptions nccl;
  nccl.library = options.nccl_library;
  nccl.rank = ring.rank();
  nccl.world = ring.world();
  nccl.device = options.device;
  nccl.share_from_first = [&ring, wait](std::span<std::byte> id) -> Status {
    const at::Tensor bytes = at::empty({static_cast<std::int64_t>(id.size())}, at::kByte);
    std::memcpy(bytes.mutable_data_ptr(), id.data(), id.size());
    const auto shared = ring.broadcast(bytes, 0);
    if (Status arrived = wait(*shared); !arrived.ok()) return arrived;
    std::memcpy(id.data(), bytes.const_data_ptr(), id.size());
    return {};
  };
  auto opened = strategy::NcclCommunicator::open(std::move(nccl));
  if (!opened.ok()) return opened.status();
  const std::string why = options.asked == Backend::kNccl ? "" : ", since every rank has a GPU of its own";
  std::string words = text("NCCL ", (*opened)->version(), why);
  return ChosenBackend{std::move(*opened), std::move(words)};
}

Result<UsedCompression> compression_for(const codec::Codec& asked, Backend backend, bool by_nccl) {
  if (asked == codec::Codec() || (backend != Backend::kNccl && !by_nccl)) return UsedCompression{asked, ""};
  const std::string name = codec::to_string(asked);
  if (backend == Backend::kNccl) {
    return invalid("compression = \"", name,
                   "\" does not go with backend = \"nccl\", which sends gradients as they are: "
                   "leave one of them out, or take backend = \"ring\"");
  }
  return UsedCompression{codec::Codec(), text("NCCL sends gradients as they are: compression = \"", name,
                                              "\" is without effect, and would need backend = \"ring\"")};
}

}  // namespace ravnest::train
