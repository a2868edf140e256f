#include "ravnest/worker/tensors.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <variant>
#include <vector>

namespace ravnest::worker {
namespace {

// As another process gets it: encoded, received into one buffer, decoded.
wire::Tensor over_a_network(const wire::Tensor& tensor) {
  const auto encoded = wire::encode(wire::Report{.pass = 0, .outputs = {tensor}});
  EXPECT_TRUE(encoded.ok()) << encoded.status();
  std::vector<std::byte> received;
  for (const Slice& part : encoded->parts) received.insert(received.end(), part.bytes.begin(), part.bytes.end());
  auto message = wire::decode(slice_of(std::move(received)));
  EXPECT_TRUE(message.ok()) << message.status();
  return std::get<wire::Report>(*message).outputs.at(0);
}

at::Tensor arrived(const at::Tensor& tensor, const codec::Codec& codec = {}) {
  const auto result = from_wire(over_a_network(to_wire(tensor, codec, true)), at::kCPU, codec);
  EXPECT_TRUE(result.ok()) << result.status();
  return *result;
}

TEST(Tensors, InOneProcessTheVeryTensorComesOutAgain) {
  const at::Tensor tensor = at::arange(6, at::kFloat).requires_grad_(true);
  const at::Tensor again = from_wire(to_wire(tensor, {}, true), at::kCPU).value();
  EXPECT_EQ(again.const_data_ptr(), tensor.const_data_ptr());
  EXPECT_FALSE(again.requires_grad());
}

TEST(Tensors, AMessageKeepsTheMemoryOfATensorThatIsGone) {
  at::Tensor tensor = at::arange(1000);
  const wire::Tensor message = to_wire(tensor, {}, true);
  tensor.reset();
  EXPECT_TRUE(at::equal(from_wire(message, at::kCPU).value(), at::arange(1000)));
}

TEST(Tensors, OverANetworkElementsAndTheOrderOfDimensionsAreKept) {
  const at::Tensor image = at::arange(2 * 3 * 4 * 5, at::kFloat).view({2, 3, 4, 5});
  for (const at::Tensor& tensor : {image, image.contiguous(at::MemoryFormat::ChannelsLast), image.permute({3, 1, 0, 2}),
                                   at::empty({0, 3}), at::ones({}, at::kBool), at::arange(4, at::kLong)}) {
    const at::Tensor again = arrived(tensor);
    EXPECT_TRUE(at::equal(again, tensor));
    EXPECT_EQ(again.strides(), tensor.strides());
  }
}

TEST(Tensors, OfAWindowOnlyItsOwnElementsTravel) {
  const at::Tensor window = at::arange(100, at::kFloat).view({10, 10}).slice(1, 0, 3);
  EXPECT_EQ(to_wire(window, {}, true).data.size(), 10 * 3 * 4U);
  EXPECT_TRUE(at::equal(arrived(window), window));
}

TEST(Tensors, FloatsAreCompressedAndNothingElseIs) {
  const codec::Codec fp16{codec::CodecKind::kFp16};
  const at::Tensor floats = at::linspace(-1, 1, 8).view({2, 4}).t();
  EXPECT_EQ(to_wire(floats, fp16, true).data.size(), 8 * 2U);
  const at::Tensor again = arrived(floats, fp16);
  EXPECT_TRUE(at::equal(again, floats.to(at::kHalf).to(at::kFloat)));
  EXPECT_EQ(again.strides(), floats.strides());
  EXPECT_TRUE(at::equal(arrived(at::arange(8), fp16), at::arange(8)));
}

TEST(Tensors, OnlyWhatTheRunAgreedOnIsUnpacked) {
  const codec::Codec agreed{codec::CodecKind::kTopK, 0.5};
  const at::Tensor floats = at::arange(1000, at::kFloat);
  EXPECT_TRUE(from_wire(to_wire(floats, {}, true), at::kCPU, agreed).ok()) << "as it is it costs what it takes";
  EXPECT_TRUE(from_wire(to_wire(floats, agreed, true), at::kCPU, agreed).ok());
  // A tenth of the bytes would be sound, too, and stand for ten times as much memory.
  for (const codec::Codec& other : {codec::Codec{codec::CodecKind::kTopK, 0.05}, codec::Codec{codec::CodecKind::kInt4}})
    EXPECT_EQ(from_wire(to_wire(floats, other, true), at::kCPU, agreed).status().code(), Code::kCorrupt) << other;
  EXPECT_EQ(from_wire(to_wire(floats, agreed, true), at::kCPU).status().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace ravnest::worker
