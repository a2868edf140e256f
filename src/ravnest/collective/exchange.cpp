#include "ravnest/collective/exchange.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "ravnest/base/check.h"
#include "ravnest/collective/sum.h"

namespace ravnest::collective {
namespace {

using codec::CodecKind;
using wire::RingChunk;
using wire::Tensor;

template <class T>
constexpr DType kDType = DType::kUInt8;
template <>
constexpr DType kDType<float> = DType::kFloat32;
template <>
constexpr DType kDType<double> = DType::kFloat64;
template <>
constexpr DType kDType<std::int64_t> = DType::kInt64;

template <class T>
RingOptions with_elements(RingOptions options, std::span<const T> contribution) {
  options.elements = contribution.size();
  return options;
}

template <class T>
std::span<T> values_of(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

// Tensors begin at multiples of 64 in what is received, and so do the pool's blocks.
template <class T>
std::span<const T> values_of(const Slice& slice) {
  return {reinterpret_cast<const T*>(slice.bytes.data()), slice.size() / sizeof(T)};
}

Slice slice_of(const transport::Buffer& buffer) { return {buffer.bytes, buffer.owner}; }

// Wherever the elements lie; only floats are ever encoded.
template <class T>
Status decode(const Tensor& tensor, std::span<T> out) {
  if constexpr (std::is_same_v<T, float>) {
    return codec::decode(tensor.codec, tensor.data.bytes, out);
  } else {
    return internal("only floats are encoded");
  }
}

}  // namespace

template <class T>
Exchange<T>::Exchange(const ExchangeOptions& options, std::span<const T> contribution, transport::BufferPool& pool,
                      std::span<T> into)
    : options_(options),
      contribution_(contribution),
      pool_(pool),
      into_(into),
      ring_(with_elements(options.ring, contribution)),
      own_(ring_.start()) {
  RAVNEST_CHECK(into.size() == contribution.size(), into.size(), " elements take ", contribution.size());
}

template <class T>
Result<std::vector<RingChunk>> Exchange<T>::start(std::size_t most) {
  std::vector<RingChunk> messages;
  while (begun_ < own_.size() && messages.size() < most) {
    auto message = carry_out(own_[begun_++], nullptr);
    if (!message.ok()) return message.status();
    if (*message) messages.push_back(std::move(**message));
  }
  return messages;
}

template <class T>
std::size_t Exchange<T>::under_way() const {
  // A chunk that began here comes back only when it has gone around, so nothing says that it has arrived. But members
  // work alike: when half of all that is to come has come, about half of what began here is through.
  if (ring_.expected() == 0) return 0;
  return begun_ - std::min<std::size_t>(begun_, ring_.received() * own_.size() / ring_.expected());
}

template <class T>
Result<std::optional<RingChunk>> Exchange<T>::on_chunk(RingChunk chunk) {
  const bool ours =
      chunk.round == options_.round && chunk.attempt == options_.attempt && chunk.vector == options_.vector;
  const auto step = ours ? ring_.on_chunk(chunk.segment, chunk.chunk, chunk.hop) : invalid("of another exchange");
  if (!step.ok()) {
    ++ignored_;
    return std::optional<RingChunk>();
  }
  // The ring has counted the chunk now. One that does not fit ends the exchange anyway.
  if (Status fits = check(chunk, step->range); !fits.ok()) return fits;
  return carry_out(*step, &chunk.tensor);
}

template <class T>
Status Exchange<T>::check(const RingChunk& chunk, const Range& range) const {
  const Tensor& tensor = chunk.tensor;
  const std::uint64_t elements = wire::element_count(tensor);
  const bool encoded = tensor.codec != CodecKind::kNone;
  if (tensor.dtype == kDType<T> && elements == range.size() &&
      !(encoded && !std::is_same_v<T, float>)&&(encoded || tensor.data.size() == range.size() * sizeof(T))) {
    return {};
  }
  return corrupt("chunk ", chunk.chunk, " of segment ", chunk.segment, " has ", elements, " elements of ",
                 dtype_name(tensor.dtype), encoded ? ", encoded," : "", " where ", range.size(), " of ",
                 dtype_name(kDType<T>), " belong: the members do not exchange the same values");
}

template <class T>
Result<std::optional<RingChunk>> Exchange<T>::carry_out(const RingStep& step, Tensor* received) {
  Tensor tensor;
  if (received != nullptr && !step.add) {
    // Complete: it goes on in the bytes that came, and so all members end with the same bits.
    tensor = *received;
    if (step.keep) {
      auto values = decoded(*received);
      if (!values.ok()) return values.status();
      keep(step, *values);
    }
  } else {
    const transport::Buffer buffer = place_for_sum(step, received);
    const std::span<T> sum = values_of<T>(buffer.bytes);
    if (Status added = add_up(step, received, sum); !added.ok()) return added;
    tensor = {kDType<T>, CodecKind::kNone, {static_cast<std::int64_t>(sum.size())}, slice_of(buffer)};
    // The owner of a chunk keeps what the others will decode, not its own more exact sum (`encoded`).
    if (step.hop != 0 && options_.codec.kind != CodecKind::kNone && std::is_same_v<T, float>) {
      auto made = encoded(step, sum);
      if (!made.ok()) return made.status();
      tensor = std::move(made).value();
    }
    if (step.keep) keep(step, slice_of(buffer));
  }
  if (step.hop == 0) return std::optional<RingChunk>();
  return std::optional(RingChunk{options_.round, options_.attempt, options_.vector, step.segment, step.chunk, step.hop,
                                 std::move(tensor)});
}

// What came is in the processor's cache: where nobody else holds it, the sum takes its place.
template <class T>
transport::Buffer Exchange<T>::place_for_sum(const RingStep& step, Tensor* received) {
  if (received != nullptr && received->codec == CodecKind::kNone && received->data.owner.use_count() == 1) {
    const ByteSpan came = received->data.bytes;
    return {{const_cast<std::byte*>(came.data()), came.size()}, received->data.owner};
  }
  return pool_.take(step.range.size() * sizeof(T));
}

template <class T>
Status Exchange<T>::add_up(const RingStep& step, const Tensor* received, std::span<T> sum) const {
  const std::span<const T> own = contribution_.subspan(step.range.first, step.range.size());
  RAVNEST_CHECK(sum.size() == own.size(), "a chunk of ", own.size(), " elements is added up in ", sum.size());
  if constexpr (std::is_same_v<T, std::byte>) {
    RAVNEST_CHECK(received == nullptr, "bytes are added up");
    std::ranges::copy(own, sum.begin());
    return {};
  } else {
    const T scale = static_cast<T>(options_.scale);
    const bool counts = scale != 0;  // what does not must not: 0 times a NaN would
    if (received == nullptr) {
      if (counts)
        multiply(sum, own, scale);
      else
        std::ranges::fill(sum, T(0));
      return {};
    }
    // Which of these ways is taken depends on who else holds the memory: all of them have to give the same bits.
    if (received->codec == CodecKind::kNone) {
      const std::span<const T> came = values_of<T>(received->data);
      if (counts && came.data() == sum.data())
        accumulate(sum, own, scale);
      else if (counts)
        add_scaled(sum, came, own, scale);
      else if (came.data() != sum.data())
        std::ranges::copy(came, sum.begin());
      return {};
    }
    if (Status status = decode(*received, sum); !status.ok()) return status;
    if (counts) accumulate(sum, own, scale);
    return {};
  }
}

template <class T>
Result<Tensor> Exchange<T>::encoded(const RingStep& step, std::span<T> sum) {
  if constexpr (std::is_same_v<T, float>) {
    const transport::Buffer buffer = pool_.take(codec::encoded_size(options_.codec, sum.size()));
    // What this encoding loses is this member's to add to its next contribution, for just these elements.
    Status status = options_.residual != nullptr
                        ? options_.residual->encode(options_.codec, sum, buffer.bytes, step.range.first)
                        : codec::encode(options_.codec, sum, buffer.bytes);
    Tensor tensor{kDType<T>, options_.codec.kind, {static_cast<std::int64_t>(sum.size())}, slice_of(buffer)};
    if (status.ok() && step.keep) status = decode(tensor, sum);
    if (!status.ok()) return status;
    return tensor;
  } else {
    return internal("only floats are encoded");
  }
}

template <class T>
Result<Slice> Exchange<T>::decoded(const Tensor& received) {
  if (received.codec == CodecKind::kNone) return received.data;
  const transport::Buffer buffer = pool_.take(wire::element_count(received) * sizeof(T));
  if (Status status = decode(received, values_of<T>(buffer.bytes)); !status.ok()) return status;
  return slice_of(buffer);
}

template <class T>
void Exchange<T>::keep(const RingStep& step, const Slice& values) {
  RAVNEST_CHECK(values_of<T>(values).size() == step.range.size() && step.range.end <= into_.size(), "a chunk of ",
                step.range.size(), " elements is kept as ", values.size(), " bytes");
  std::ranges::copy(values_of<T>(values), into_.begin() + static_cast<std::ptrdiff_t>(step.range.first));
}

template class Exchange<float>;
template class Exchange<double>;
template class Exchange<std::int64_t>;
template class Exchange<std::byte>;

}  // namespace ravnest::collective
