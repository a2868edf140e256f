#include "ravnest/codec/topk.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "ravnest/codec/half.h"
#include "ravnest/codec/magnitude.h"

namespace ravnest::codec {
namespace {

constexpr std::size_t kGroup = 65536;
constexpr std::size_t kCountBytes = 4;
constexpr std::size_t kPlaceBytes = 2;
constexpr std::size_t kKeptBytes = kPlaceBytes + sizeof(float);

std::size_t groups_of(std::size_t elements) { return elements / kGroup + (elements % kGroup != 0); }

template <class T>
T read_at(const std::byte* bytes, std::size_t index) {
  T value{};
  std::memcpy(&value, bytes + index * sizeof(T), sizeof(T));
  return value;
}

// Appends places and values of the elements taken, until `kept` are.
class Taker {
 public:
  Taker(LargestMagnitudes largest, std::size_t kept, std::byte* places)
      : largest_(largest), places_(places), values_(places + kept * kPlaceBytes) {}

  // `value` is at least the smallest that is kept.
  void offer(float value, std::size_t place) {
    if (magnitude_bits(value) == largest_.bits) {
      if (largest_.equal == 0) return;
      --largest_.equal;
    }
    const auto narrow = static_cast<std::uint16_t>(place);
    std::memcpy(places_ + taken_ * kPlaceBytes, &narrow, kPlaceBytes);
    std::memcpy(values_ + taken_ * sizeof(float), &value, sizeof(float));
    ++taken_;
  }

  std::size_t taken() const { return taken_; }

 private:
  LargestMagnitudes largest_;
  std::byte* places_;
  std::byte* values_;
  std::size_t taken_ = 0;
};

Result<std::size_t> kept_in(ByteSpan in, std::size_t elements) {
  if (const auto kept = topk_kept(elements, in.size())) return *kept;
  return corrupt(in.size(), " bytes are not the size of a top-k encoding of ", elements, " elements");
}

// Calls visit(index, value) for each kept element, in order, and checks everything on the way.
template <class Visit>
Status for_each_kept(ByteSpan in, std::size_t elements, Visit visit) {
  const auto sized = kept_in(in, elements);
  if (!sized.ok()) return sized.status();
  const std::size_t kept = *sized;
  const std::size_t groups = groups_of(elements);
  const std::byte* places = in.data() + groups * kCountBytes;
  const std::byte* values = places + kept * kPlaceBytes;
  std::size_t next = 0;
  for (std::size_t group = 0; group < groups; ++group) {
    const std::size_t count = read_at<std::uint32_t>(in.data(), group);
    if (count > kept - next) return corrupt("a top-k encoding counts more elements than the ", kept, " it keeps");
    const std::size_t start = group * kGroup;
    std::size_t free = 0;  // the first place in the group that comes after the last one taken
    for (const std::size_t end = next + count; next < end; ++next) {
      const std::size_t place = read_at<std::uint16_t>(places, next);
      if (place < free || place >= elements - start) {
        return corrupt("a top-k encoding of ", elements, " elements has one out of order or range at ", start + place);
      }
      free = place + 1;
      visit(start + place, read_at<float>(values, next));
    }
  }
  if (next != kept) return corrupt("a top-k encoding keeps ", kept, " elements, but counts ", next);
  return {};
}

}  // namespace

std::size_t topk_count(double keep, std::size_t elements) {
  if (elements == 0) return 0;
  // 0.07 * 100 is a little above 7 in binary; a product that misses a whole number by rounding alone means it.
  constexpr double kRounding = 4 * std::numeric_limits<double>::epsilon();
  const double wanted = std::ceil(keep * static_cast<double>(elements) * (1 - kRounding));
  if (!(wanted > 1)) return 1;
  return wanted < static_cast<double>(elements) ? static_cast<std::size_t>(wanted) : elements;
}

std::size_t topk_size(std::size_t elements, std::size_t kept) {
  return groups_of(elements) * kCountBytes + kept * kKeptBytes;
}

std::optional<std::size_t> topk_kept(std::size_t elements, std::size_t bytes) {
  const std::size_t counts = groups_of(elements) * kCountBytes;
  if (bytes < counts || (bytes - counts) % kKeptBytes != 0) return std::nullopt;
  const std::size_t kept = (bytes - counts) / kKeptBytes;
  if (kept > elements || (kept == 0 && elements > 0)) return std::nullopt;
  return kept;
}

void encode_topk(const CodecKernels& kernels, std::span<const float> values, std::size_t kept, std::byte* bytes) {
  const LargestMagnitudes largest = largest_magnitudes(kernels, values, kept);
  Taker taker(largest, kept, bytes + groups_of(values.size()) * kCountBytes);
  for (std::size_t start = 0; start < values.size(); start += kGroup, bytes += kCountBytes) {
    const auto group = values.subspan(start, std::min(kGroup, values.size() - start));
    const std::size_t before = taker.taken();
    std::size_t place = 0;
    for (; place + 32 <= group.size(); place += 32) {
      std::uint32_t mask = kernels.magnitudes_within(&group[place], largest.bits, ~kSignBit);
      for (; mask != 0; mask &= mask - 1) {
        const std::size_t at = place + static_cast<std::size_t>(std::countr_zero(mask));
        taker.offer(group[at], at);
      }
    }
    for (; place < group.size(); ++place) {
      if (magnitude_bits(group[place]) >= largest.bits) taker.offer(group[place], place);
    }
    const auto count = static_cast<std::uint32_t>(taker.taken() - before);
    std::memcpy(bytes, &count, kCountBytes);
  }
}

Status decode_topk(ByteSpan in, std::span<float> out) {
  if (const auto sized = kept_in(in, out.size()); !sized.ok()) return sized.status();
  std::ranges::fill(out, 0.0F);
  return for_each_kept(in, out.size(), [&](std::size_t index, float value) { out[index] = value; });
}

Status clear_kept(ByteSpan in, std::span<float> values) {
  return for_each_kept(in, values.size(), [&](std::size_t index, float) { values[index] = 0; });
}

}  // namespace ravnest::codec
