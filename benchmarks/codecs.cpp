// Speed of checksums and codecs on one core, beside memcpy in the same run: prints lines of
//   name value unit ratio-to-peer target
// where the value is GB/s of float32 data going in (encode) or coming out (decode), and the peer is memcpy.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "ravnest/codec/codec.h"
#include "ravnest/codec/crc32c.h"
#include "ravnest/codec/crc32c_kernels.h"
#include "ravnest/codec/error_feedback.h"

namespace {

using namespace ravnest;
using namespace ravnest::codec;

constexpr std::size_t kElements = std::size_t{4} << 20;
constexpr std::size_t kBytes = kElements * sizeof(float);
constexpr int kRepeats = 31;

// The median of the repeats, after one that warms up.
double gigabytes_per_second(std::size_t bytes, const std::function<void()>& work) {
  std::vector<double> seconds;
  work();
  for (int i = 0; i < kRepeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::nth_element(seconds, seconds.begin() + kRepeats / 2);
  return static_cast<double>(bytes) / seconds[kRepeats / 2] / 1e9;
}

void print(const std::string& name, double value, double peer, const char* target = "-") {
  std::printf("%-24s %7.2f GB/s %5.2f %s\n", name.c_str(), value, value / peer, target);
}

void measure_checksums(const std::vector<float>& values, std::vector<float>& other, double peer) {
  const ByteSpan bytes = std::as_bytes(std::span(values));
  std::uint32_t sink = 0;
  print("crc32c", gigabytes_per_second(kBytes, [&] { sink += crc32c(bytes); }), peer);
  // In cache: 16 KiB, many times over.
  constexpr std::size_t kNear = 16384;
  constexpr int kTimes = 256;
  const double near_peer = gigabytes_per_second(kNear * kTimes, [&] {
    for (int i = 0; i < kTimes; ++i) {
      std::memcpy(other.data(), bytes.data(), kNear);
      asm volatile("" ::: "memory");
    }
  });
  print("memcpy_16KiB", near_peer, near_peer);
  for (const Crc32cKernel& kernel : crc32c_kernels()) {
    const double rate = gigabytes_per_second(kNear * kTimes, [&] {
      for (int i = 0; i < kTimes; ++i) sink = kernel.extend(bytes.data(), kNear, sink);
    });
    print("crc32c_16KiB_" + std::string(kernel.name), rate, near_peer, kernel.name == "portable" ? "-" : "15");
  }
  if (sink == 1) std::puts("");  // keeps the sums from being dropped
}

void measure_codec(const std::string& name, const std::vector<float>& values, std::vector<float>& other, double peer) {
  const Codec codec = *parse_codec(name);
  std::vector<std::byte> encoded(encoded_size(codec, values.size()));
  bool ok = true;
  const char* target = codec.kind == CodecKind::kTopK ? "0.5" : "-";
  print(name + "_encode", gigabytes_per_second(kBytes, [&] { ok = encode(codec, values, encoded).ok() && ok; }), peer,
        target);
  print(name + "_decode", gigabytes_per_second(kBytes, [&] { ok = decode(codec.kind, encoded, other).ok() && ok; }),
        peer);
  ErrorFeedback feedback(values.size());
  print(name + "_feedback",
        gigabytes_per_second(kBytes, [&] { ok = feedback.encode(codec, values, encoded).ok() && ok; }), peer);
  if (!ok) std::printf("%s failed\n", name.c_str());
}

}  // namespace

int main() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(kElements);
  for (float& value : values) value = normal(random);
  std::vector<float> other(kElements);
  const double peer = gigabytes_per_second(kBytes, [&] {
    std::memcpy(other.data(), values.data(), kBytes);
    asm volatile("" ::: "memory");
  });
  print("memcpy", peer, peer);
  measure_checksums(values, other, peer);
  for (const char* name : {"fp16", "bf16", "int8", "int4", "topk:0.01", "topk:0.1"}) {
    measure_codec(name, values, other, peer);
  }
}
