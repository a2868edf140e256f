// For this folder's tests: processes that are killed, disks that are full, system calls that are refused.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>

namespace ravnest::test {

// Runs `work` in a child process and returns its exit status; -1 where a signal ended it.
int in_child(const std::function<int()>& work);

// Starts it and returns the process id.
int start_child(const std::function<int()>& work);
// Lets it run for so long, kills it with SIGKILL and waits for its end.
void kill_after(int child, std::chrono::microseconds delay);

// Makes renameat2 fail with ENOSYS for the rest of the calling process, as old kernels do.
bool refuse_swaps();
bool can_refuse_swaps();  // tried in a child

// Writes zeros to `path` until the disk takes no more.
void fill_up(const std::filesystem::path& path);

// A file system in memory of so many bytes, mounted at `path` where the process may.
class SmallDisk {
 public:
  SmallDisk(std::filesystem::path path, std::size_t bytes);
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk();

  bool mounted() const { return mounted_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool mounted_ = false;
};

// Two layers seen as one, as a container sees its image: what `path` held stays beneath. `disk` takes the upper layer.
class Layers {
 public:
  Layers(std::filesystem::path path, const SmallDisk& disk);
  Layers(const Layers&) = delete;
  Layers& operator=(const Layers&) = delete;
  ~Layers();

  bool mounted() const { return mounted_; }

 private:
  std::filesystem::path path_;
  bool mounted_ = false;
};

}  // namespace ravnest::test
