// Between torch's tensors and those of messages.
//
// A tensor goes into a message without a copy, as the memory that it has; whoever is in the same process gets that very
// tensor out again, wherever its memory is. What came over a network is used where it was received. The order in which
// the dimensions lie in memory is kept: kernels go by it, and would round in other ways.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/codec/codec.h"
#include "ravnest/wire/message.h"

namespace ravnest::worker {

// Nobody may write to the tensor's memory while the message lives; `keep` lives as long. float32 is encoded by `codec`;
// other types travel as they are. Where `host` is true the bytes are in the host's memory, as a network needs them.
wire::Tensor to_wire(const at::Tensor& tensor, const codec::Codec& codec, bool host,
                     std::shared_ptr<const void> keep = nullptr);

// The model's inputs, flat, as the root's own edges, without those that are undefined; otherwise as to_wire.
std::vector<wire::EdgeTensor> model_inputs(const std::vector<at::Tensor>& inputs, bool host);

// A tensor that requires no gradient, to be read only. kCorrupt where the bytes are not what they claim to be, and
// where they are neither the elements as they are nor encoded as was `agreed`: so that the memory of what comes out is
// in proportion to what came in.
Result<at::Tensor> from_wire(const wire::Tensor& tensor, c10::Device device, const codec::Codec& agreed = {});

// Whether it has these sizes: to be asked of what is to be added to something, before it is made a tensor.
bool has_sizes(const wire::Tensor& tensor, at::IntArrayRef sizes);

}  // namespace ravnest::worker
