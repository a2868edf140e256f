#include "ravnest/archive/weights/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/archive/pickle/state_dict.h"
#include "ravnest/archive/testing/files.h"
#include "ravnest/archive/testing/payloads.h"
#include "ravnest/archive/weights/safetensors.h"
#include "ravnest/base/file.h"
#include "ravnest/base/testing/folders.h"

namespace ravnest::archive {
namespace {

using testing::expect_failure;

class Weights : public test::FolderTest {
 protected:
  const NamedPayloads tensors_ = {{"w", testing::float_payload({2}, {1, 2})}};
};

TEST_F(Weights, AFileIsWhatItsBytesSayWhateverItsName) {
  const auto torch_file = folder_ / "a.safetensors";
  const auto safetensors = folder_ / "b.pt";
  ASSERT_EQ(write_state_dict(torch_file, tensors_), Status());
  ASSERT_EQ(write_safetensors(safetensors, {{}, tensors_}), Status());
  for (const auto& path : {torch_file, safetensors}) {
    const auto read = read_weights(path);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(testing::shown(*read), testing::shown(tensors_));
    EXPECT_TRUE(testing::same_elements(*read, tensors_));
  }
  expect_failure(read_weights(safetensors, "model"), Code::kInvalid,
                 "b.pt is a safetensors file, which has no entries");
  expect_failure(read_weights(torch_file, "model"), Code::kInvalid, "has no state dict \"model\"");
}

TEST_F(Weights, OtherFilesAreNamed) {
  const auto path = folder_ / "notes.txt";
  for (const std::string_view content : {"", "PK", "hello, I am no weights"}) {
    ASSERT_EQ(write_file_atomically(path, content), Status());
    expect_failure(read_weights(path), Code::kInvalid, "notes.txt is no file of weights: neither safetensors nor");
  }
  expect_failure(read_weights(folder_ / "none.pt"), Code::kNotFound, "none.pt");
}

}  // namespace
}  // namespace ravnest::archive
