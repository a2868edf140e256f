// Any text as train.toml: a configuration, or what is wrong with it, in a few lines.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "ravnest/train/config/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto config =
      ravnest::train::decode_train_config({reinterpret_cast<const char*>(data), size}, "folder/train.toml");
  if (config.ok()) {
    const bool sound = config->batch_size >= 1 && config->microbatches <= config->batch_size &&
                       !config->optimizer.name.empty() && !config->data.options.inputs.empty();
    if (!sound) std::abort();
    return 0;
  }
  if (config.status().code() != ravnest::Code::kInvalid || config.status().message().size() > 20'000) std::abort();
  if (!config.status().message().starts_with("folder/train.toml")) std::abort();
  return 0;
}
