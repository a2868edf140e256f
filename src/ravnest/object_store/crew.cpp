#include "ravnest/object_store/crew.h"

#include <algorithm>
#include <thread>

namespace ravnest::object_store {

bool Crew::moved(Piece& piece, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  done_ += bytes - piece.bytes_;
  piece.bytes_ = bytes;
  if (failure_.ok() && progress_ && !progress_(std::min(done_, all_), all_))
    failure_ = cancelled("the transfer was ended");
  return failure_.ok();
}

void Crew::fail(Status status) {
  const MutexLock lock(mutex_);
  if (failure_.ok()) failure_ = std::move(status);
}

Status Crew::run(const std::vector<std::size_t>& pieces, int threads,
                 const std::function<Status(std::size_t number, Piece& piece)>& work) {
  const auto work_on = [&] {
    for (;;) {
      std::size_t number = 0;
      {
        const MutexLock lock(mutex_);
        if (!failure_.ok() || next_ == pieces.size()) return;
        number = pieces[next_++];
      }
      Piece piece(*this);
      if (Status done = work(number, piece); !done.ok()) fail(std::move(done));
    }
  };
  {
    const MutexLock lock(mutex_);
    next_ = 0;
  }
  std::vector<std::thread> others;
  const std::size_t count = std::min(pieces.size(), static_cast<std::size_t>(std::max(threads, 1)));
  for (std::size_t i = 1; i < count; ++i) others.emplace_back(work_on);
  work_on();
  for (std::thread& other : others) other.join();
  const MutexLock lock(mutex_);
  return failure_;
}

}  // namespace ravnest::object_store
