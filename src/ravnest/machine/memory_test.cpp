#include "ravnest/machine/memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "ravnest/base/testing/folders.h"

namespace ravnest {
namespace {

namespace fs = std::filesystem;

// A machine of 1000 KiB, 800 of them available, whose files the tests write.
class MemoryTest : public test::FolderTest {
 protected:
  MemoryTest() { put("proc/meminfo", "MemTotal:       1000 kB\nMemFree:        10 kB\nMemAvailable:   800 kB\n"); }

  void put(const fs::path& path, const std::string& content) {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << content;
  }
};

TEST_F(MemoryTest, WithoutControlGroupsWhatTheKernelHasAvailableCounts) {
  const auto memory = usable_memory(folder_);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->bytes, 800 * 1024);
  EXPECT_EQ(memory->total_bytes, 1000 * 1024);
  EXPECT_EQ(memory->limited_by, "free memory");
}

TEST_F(MemoryTest, LimitOfAVersion2GroupLessWhatIsUsedCountsWhereItIsLower) {
  put("proc/self/cgroup", "0::/user/session\n");
  put("sys/fs/cgroup/user/session/memory.max", "500000\n");
  put("sys/fs/cgroup/user/session/memory.current", "200000\n");
  const auto memory = usable_memory(folder_);
  EXPECT_EQ(memory->bytes, 300000);
  EXPECT_NE(memory->limited_by.find("user/session/memory.max"), std::string::npos) << memory->limited_by;
}

TEST_F(MemoryTest, FileCacheOfTheGroupCountsAsFree) {
  put("proc/self/cgroup", "0::/\n");
  put("sys/fs/cgroup/memory.max", "500000\n");
  put("sys/fs/cgroup/memory.current", "200000\n");
  put("sys/fs/cgroup/memory.stat", "anon 1\ninactive_file 150000\n");
  EXPECT_EQ(usable_memory(folder_)->bytes, 450000);
}

TEST_F(MemoryTest, LimitOfAGroupAboveCountsToo) {
  put("proc/self/cgroup", "0::/pod/container\n");
  put("sys/fs/cgroup/pod/memory.max", "400000\n");
  put("sys/fs/cgroup/pod/memory.current", "100000\n");
  put("sys/fs/cgroup/pod/container/memory.max", "max\n");
  put("sys/fs/cgroup/pod/container/memory.current", "100000\n");
  EXPECT_EQ(usable_memory(folder_)->bytes, 300000);
}

TEST_F(MemoryTest, LimitOfAVersion1GroupCounts) {
  put("proc/self/cgroup", "5:cpu:/\n4:hugetlb,memory:/job\n0::/\n");
  put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "600000\n");
  put("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "100000\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", "100000\n");
  EXPECT_EQ(usable_memory(folder_)->bytes, 500000);
}

TEST_F(MemoryTest, GroupOverItsLimitLeavesNothingRatherThanAHugeNumber) {
  put("proc/self/cgroup", "0::/\n");
  put("sys/fs/cgroup/memory.max", "1000\n");
  put("sys/fs/cgroup/memory.current", "2000\n");
  EXPECT_EQ(usable_memory(folder_)->bytes, 0);
}

TEST_F(MemoryTest, MissingOrOddMeminfoIsAFailureThatNamesTheFile) {
  put("proc/meminfo", "MemTotal: many\n");
  EXPECT_EQ(usable_memory(folder_).status().code(), Code::kCorrupt);
  EXPECT_NE(usable_memory(folder_).status().message().find("meminfo"), std::string::npos);
  fs::remove(folder_ / "proc/meminfo");
  EXPECT_EQ(usable_memory(folder_).status().code(), Code::kNotFound);
}

TEST(Memory, ThisMachineHasSome) {
  const auto memory = usable_memory();
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_GT(memory->bytes, 1'000'000);
  EXPECT_LE(memory->bytes, memory->total_bytes);
}

}  // namespace
}  // namespace ravnest
