#include "ravnest/base/testing/bad_conditions.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <string>
#include <thread>

#include "ravnest/base/descriptor.h"

namespace ravnest::test {

int start_child(const std::function<int()>& work) {
  const pid_t child = ::fork();
  // _exit, so that the child neither reports tests nor checks for leaks of its parent.
  if (child == 0) ::_exit(work());
  return child;
}

int in_child(const std::function<int()>& work) {
  int status = 0;
  ::waitpid(start_child(work), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void kill_after(int child, std::chrono::microseconds delay) {
  std::this_thread::sleep_for(delay);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

bool refuse_swaps() {
  std::array<sock_filter, 4> program{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_renameat2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog filter{program.size(), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

bool can_refuse_swaps() {
  return in_child([] { return refuse_swaps() ? 0 : 1; }) == 0;
}

void fill_up(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const std::string zeros(4096, '\0');
  while (::write(file.number(), zeros.data(), zeros.size()) > 0) {
  }
}

SmallDisk::SmallDisk(std::filesystem::path path, std::size_t bytes) : path_(std::move(path)) {
  std::filesystem::create_directories(path_);
  mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, ("size=" + std::to_string(bytes)).c_str()) == 0;
}

SmallDisk::~SmallDisk() {
  if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
}

Layers::Layers(std::filesystem::path path, const SmallDisk& disk) : path_(std::move(path)) {
  if (!disk.mounted()) return;
  const std::filesystem::path upper = disk.path() / "upper";
  const std::filesystem::path work = disk.path() / "work";
  std::filesystem::create_directories(upper);
  std::filesystem::create_directories(work);
  const std::string options =
      "lowerdir=" + path_.string() + ",upperdir=" + upper.string() + ",workdir=" + work.string() + ",redirect_dir=off";
  mounted_ = ::mount("overlay", path_.c_str(), "overlay", 0, options.c_str()) == 0;
}

Layers::~Layers() {
  if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
}

}  // namespace ravnest::test
