#include "ravnest/transport/tcp/dialler.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <csignal>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace ravnest::transport::tcp {
namespace {

constexpr Duration kPatience = std::chrono::seconds(10);

Descriptor event() { return Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

void raise(const Descriptor& descriptor) { (void)::eventfd_write(descriptor.number(), 1); }

}  // namespace

struct Dialler::Shared {
  Descriptor stop = event();
  Descriptor ready = event();
  std::mutex mutex;
  bool ended = false;
  std::vector<Dialled> results;

  void put(Dialled dialled) {
    const std::lock_guard lock(mutex);
    if (ended) return;
    results.push_back(std::move(dialled));
    raise(ready);
  }
};

Dialler::Dialler() : shared_(std::make_shared<Shared>()) {}

Dialler::~Dialler() {
  const std::lock_guard lock(shared_->mutex);
  shared_->ended = true;
  shared_->results.clear();
  raise(shared_->stop);
}

int Dialler::ready() const { return shared_->ready.number(); }

void Dialler::dial(const std::string& peer, const Address& address) {
  const auto attempt = [shared = shared_, peer, address] {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    shared->put({peer, Socket::connect(address, Wait::of(kPatience, shared->stop.number()))});
  };
  try {
    std::thread(attempt).detach();
  } catch (const std::system_error& error) {
    shared_->put({peer, unavailable("no thread can be started: ", error.what())});
  }
}

std::vector<Dialled> Dialler::take() {
  eventfd_t count = 0;
  (void)::eventfd_read(shared_->ready.number(), &count);
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->results, {});
}

}  // namespace ravnest::transport::tcp
