#include "ravnest/strategy/communicate/texts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace ravnest::strategy {

Result<std::vector<std::string>> gather_texts(Communicator& communicator, const std::string& own, c10::Device device,
                                              const Waiter& wait) {
  const auto world = static_cast<std::size_t>(communicator.world());
  const auto self = static_cast<std::size_t>(communicator.rank());
  std::vector<std::int64_t> sizes(world);
  sizes[self] = static_cast<std::int64_t>(own.size());
  const auto sized = communicator.sum(std::span(sizes));
  if (Status summed = wait(*sized); !summed.ok()) return summed;
  const auto too_long = std::ranges::find_if(sizes, [](auto size) { return size < 0 || size > kLongestText; });
  if (too_long != sizes.end()) {
    return invalid("rank ", too_long - sizes.begin(), " has a text of ", *too_long, " bytes for the others, and ",
                   kLongestText, " are the most");
  }
  const std::int64_t longest = *std::ranges::max_element(sizes);
  if (longest == 0) return std::vector<std::string>(world);
  at::Tensor host = at::zeros({static_cast<std::int64_t>(world) * longest}, at::kByte);
  std::memcpy(host.mutable_data_ptr<std::uint8_t>() + static_cast<std::int64_t>(self) * longest, own.data(),
              own.size());
  const at::Tensor all = host.to(device);
  const auto gathered = communicator.all_gather(all);
  if (Status arrived = wait(*gathered); !arrived.ok()) return arrived;
  host = all.to(at::kCPU);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < world; ++i) {
    const auto* begin = reinterpret_cast<const char*>(host.const_data_ptr<std::uint8_t>());
    texts.emplace_back(begin + static_cast<std::int64_t>(i) * longest, static_cast<std::size_t>(sizes[i]));
  }
  return texts;
}

}  // namespace ravnest::strategy
