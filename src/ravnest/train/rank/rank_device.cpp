#include "ravnest/train/rank/rank_device.h"

#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <fstream>

#include "ravnest/base/text.h"

namespace ravnest::train {
namespace {

// Three functions of CUDA's driver, which torch has loaded; what is built without CUDA has no header of it.
constexpr const char* kDriver = "libcuda.so.1";
constexpr int kSuccess = 0;
using Uuid = std::array<unsigned char, 16>;
using GetDevice = int (*)(int* device, int ordinal);
using GetUuid = int (*)(Uuid* uuid, int device);

// Empty where the driver does not tell.
std::string uuid_of(int ordinal) {
  void* const driver = ::dlopen(kDriver, RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return {};
  const auto get_device = reinterpret_cast<GetDevice>(::dlsym(driver, "cuDeviceGet"));
  // The second version tells the parts of a GPU that is shared out (MIG) from each other.
  auto get_uuid = reinterpret_cast<GetUuid>(::dlsym(driver, "cuDeviceGetUuid_v2"));
  if (get_uuid == nullptr) get_uuid = reinterpret_cast<GetUuid>(::dlsym(driver, "cuDeviceGetUuid"));
  int device = 0;
  Uuid uuid{};
  const bool known = get_device != nullptr && get_uuid != nullptr && get_device(&device, ordinal) == kSuccess &&
                     get_uuid(&uuid, device) == kSuccess;
  ::dlclose(driver);
  if (!known) return {};
  std::string digits;
  for (const unsigned char byte : uuid) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", byte);
    digits += two;
  }
  return digits;
}

// Another one for each machine, since it was started.
std::string machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace

Result<c10::Device> rank_device(const DeviceQuestion& question, const strategy::Place& place) {
  const c10::Device wanted = question.wanted;
  const auto ranks = static_cast<std::size_t>(place.local_world);
  const bool may_share = question.backend == Backend::kRing;
  if (wanted.is_cpu() || place.has_own_gpu) return wanted;
  if (wanted.has_index()) {
    if (may_share || ranks == 1) return wanted;
    return invalid("device = \"", wanted.str(), "\" is one GPU, and the ", ranks,
                   " ranks of this machine need one each: "
                   "device = \"cuda\" gives each its own, and with backend = \"ring\" they may share one");
  }
  if (!place.local_rank) {
    if (question.gpus <= 1) return wanted;
    return invalid(
        "which of the ", question.gpus, " GPUs here is rank ", place.rank.value_or(0),
        "'s? RANK does not say it: set LOCAL_RANK to its number on this machine, or choose a device such as \"",
        wanted.str(), ":0\"");
  }
  if (ranks == 1) return wanted;
  const auto numbered = [&](std::size_t index) {
    return c10::Device(wanted.type(), static_cast<c10::DeviceIndex>(index));
  };
  const auto local_rank = static_cast<std::size_t>(*place.local_rank);
  if (question.gpus == 0 || ranks <= question.gpus) return numbered(local_rank);
  if (may_share) return numbered(local_rank % question.gpus);
  if (question.gpus == 1 && question.are_chosen) return numbered(0);
  return invalid(
      "there are ", ranks, " ranks on this machine, and torch finds ", question.gpus,
      question.gpus == 1 ? " GPU" : " GPUs", ": start no more ranks than GPUs (--devices ", question.gpus,
      "), or let them share GPUs by the ring (backend = \"ring\"), or compute on the CPU (device = \"cpu\")");
}

std::string gpu_identity(c10::Device device) {
  if (!device.is_cuda()) return {};
  const int ordinal = device.has_index() ? device.index() : 0;
  const std::string uuid = uuid_of(ordinal);
  return uuid.empty() ? text(machine(), " ", ordinal) : uuid;
}

}  // namespace ravnest::train
