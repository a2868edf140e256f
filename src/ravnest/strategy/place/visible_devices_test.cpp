#include "ravnest/strategy/place/visible_devices.h"

#include <gtest/gtest.h>

#include "ravnest/base/testing/folders.h"

namespace ravnest::strategy {
namespace {

// The files of a driver, made up: so many GPUs as files, and as folders.
class VisibleDevices : public testing::Test {
 protected:
  int count(int devices, int folders, const Environment& environment = {}) {
    const test::TemporaryFolder folder;
    const DriverFiles files{folder.path() / "dev", folder.path() / "gpus"};
    std::filesystem::create_directory(files.devices);
    for (const char* other : {"nvidiactl", "nvidia-uvm", "null"}) test::write(files.devices / other, "");
    for (int i = 0; i < devices; ++i) test::write(files.devices / text("nvidia", i), "");
    for (int i = 0; i < folders; ++i) std::filesystem::create_directories(files.gpus / text("0000:0", i, ":00.0"));
    return visible_devices(environment, files);
  }
  int listed(const std::string& list) { return count(4, 4, {{"CUDA_VISIBLE_DEVICES", list}}); }
};

TEST_F(VisibleDevices, AreThoseThatTheDriverShows) {
  EXPECT_EQ(count(0, 0), 0);
  EXPECT_EQ(count(4, 4), 4);
  EXPECT_EQ(count(0, 4), 4) << "before the first use there are no device files";
  EXPECT_EQ(count(2, 8), 2) << "a container with two of the machine's eight";
}

TEST_F(VisibleDevices, AreThoseOfCudaVisibleDevicesWhereItIsSet) {
  EXPECT_EQ(listed("0"), 1);
  EXPECT_EQ(listed("3,1"), 2);
  EXPECT_EQ(listed(" 0 , 1 , 2 "), 3);
  EXPECT_EQ(listed("GPU-00cea8c8-1a4e,MIG-7"), 2);
  EXPECT_EQ(listed(""), 0);
  EXPECT_EQ(count(0, 0, {{"CUDA_VISIBLE_DEVICES", "GPU-00cea8c8,MIG-7"}}), 0) << "a list makes no GPUs";
}

TEST_F(VisibleDevices, EndAtTheFirstEntryThatIsNone) {
  EXPECT_EQ(listed("-1"), 0);
  EXPECT_EQ(listed("0,-1,1"), 1);
  EXPECT_EQ(listed("0,4,1"), 1);
  EXPECT_EQ(listed("0,,1"), 1);
  EXPECT_EQ(listed("1,99999999999999999999"), 1);
  EXPECT_EQ(listed("0,none"), 1);
  EXPECT_EQ(listed("0,1,0"), 0) << "none at all where one is listed twice";
}

}  // namespace
}  // namespace ravnest::strategy
