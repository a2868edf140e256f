// How many GPUs a process may use, without torch and without CUDA: for launchers, which compute nothing themselves.
#pragma once

#include <filesystem>

#include "ravnest/strategy/place/place.h"

namespace ravnest::strategy {

// NVIDIA's driver shows each GPU as a file nvidiaN and as a folder. A container has the files of its own GPUs only, and
// often the folders of all; on the machine itself the files may be missing until the first use.
struct DriverFiles {
  std::filesystem::path devices = "/dev";
  std::filesystem::path gpus = "/proc/driver/nvidia/gpus";
};

// As CUDA counts: all GPUs that there are or, where CUDA_VISIBLE_DEVICES is set, what it lists up to the first entry
// that is none of them, and none where it lists one twice.
int visible_devices(const Environment& environment, const DriverFiles& files = {});

}  // namespace ravnest::strategy
