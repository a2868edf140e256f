#include "ravnest/codec/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace ravnest::codec {
namespace {

#if defined(__x86_64__)
bool has_f16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

}  // namespace

std::vector<CodecKernels> codec_kernels() {
  std::vector<CodecKernels> kernels;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && has_f16c()) {
    kernels.push_back({.name = "avx2",
                       .encode_fp16 = encode_fp16_avx2,
                       .decode_fp16 = decode_fp16_avx2,
                       .encode_bf16 = encode_bf16_avx2,
                       .decode_bf16 = decode_bf16_avx2,
                       .encode_int8 = encode_int8_avx2,
                       .decode_int8 = decode_int8_avx2,
                       .encode_int4 = encode_int4_avx2,
                       .decode_int4 = decode_int4_avx2,
                       .magnitudes_within = magnitudes_within_avx2});
  }
#endif
  kernels.push_back({.name = "portable",
                     .encode_fp16 = encode_fp16_portable,
                     .decode_fp16 = decode_fp16_portable,
                     .encode_bf16 = encode_bf16_portable,
                     .decode_bf16 = decode_bf16_portable,
                     .encode_int8 = encode_int8_portable,
                     .decode_int8 = decode_int8_portable,
                     .encode_int4 = encode_int4_portable,
                     .decode_int4 = decode_int4_portable,
                     .magnitudes_within = magnitudes_within_portable});
  return kernels;
}

}  // namespace ravnest::codec
