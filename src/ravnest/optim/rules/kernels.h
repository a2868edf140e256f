// Whole updates, a few thousand elements at a time, for float and double.
//
// torch.optim's own path without `fused` goes through all of a parameter once per operator, five to ten times; here
// what was read stays in the cache until it is done. The kernels give the same bits: they round where those operators
// round, and use a fused multiply-add where ATen's do. How ATen does it is a matter of how torch was built, so that is
// found out before the first use (chunks.h). Its square roots are none that could be written down here (MKL's are not
// rounded correctly), so it takes them itself: a kernel comes in two halves, with `scale` to be replaced by its roots
// in between. No torch here; on x86 they need AVX2 and FMA.
#pragma once

#include <array>
#include <cstddef>

namespace ravnest::optim {

// Some elements of a parameter, of its gradient and of its optimizer state, all laid out alike and apart from each
// other. What a kernel wants in `state` stands beside it; what it does not need may be null.
struct Chunk {
  void* parameter;
  const void* gradient;
  std::array<void*, 3> state;
  void* scale;  // scratch
  std::size_t count;
  bool doubles;  // else floats
};

struct SgdPass {
  double weight_decay, momentum, share, lr;  // share: of the gradient in the momentum
  bool nesterov, maximize;
  bool first;  // the buffer is to be filled
};
void sgd_pass(const Chunk& chunk, const SgdPass& pass);  // buffer

// What the moments of Adam and its kin have in common.
struct Moments {
  double weight_decay;  // as an L2 penalty
  double mean_share;    // of the gradient in its mean
  double square_keep, square_share;
  bool maximize;
};

struct AdamPass {
  Moments moments;
  double decay;  // factor of the parameter, before all else
  double root;   // divides the square's root
  double eps, stride;
  bool amsgrad;
};
void adam_moments(const Chunk& chunk, const AdamPass& pass);  // mean, square, most square
void adam_apply(const Chunk& chunk, const AdamPass& pass);

struct NadamPass {
  Moments moments;
  double decay;
  double correction;  // divides the square
  double eps, gradient_stride, mean_stride;
};
void nadam_moments(const Chunk& chunk, const NadamPass& pass);  // mean, square
void nadam_apply(const Chunk& chunk, const NadamPass& pass);

struct RmspropPass {
  double weight_decay, keep, share, eps, momentum, lr;
  bool centered, maximize;
};
void rmsprop_moments(const Chunk& chunk, const RmspropPass& pass);  // square, buffer, mean
void rmsprop_apply(const Chunk& chunk, const RmspropPass& pass);

struct AdagradPass {
  double weight_decay, eps, lr;
  bool maximize;
};
void adagrad_moments(const Chunk& chunk, const AdagradPass& pass);  // sum
void adagrad_apply(const Chunk& chunk, const AdagradPass& pass);

struct LambPass {
  Moments moments;      // without a penalty
  double weight_decay;  // in the direction
  double correction;    // divides the mean
  double root, eps;
};
// Sums of squares.
struct Lengths {
  double parameter = 0;
  double direction = 0;
};
// The second needs the lengths of the whole parameter. Torch has no LAMB to be equal to: the roots are our own.
Lengths lamb_moments(const Chunk& chunk, const LambPass& pass);  // mean, square
void lamb_apply(const Chunk& chunk, const LambPass& pass, double stride);

}  // namespace ravnest::optim
