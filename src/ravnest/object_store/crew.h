// Several threads that carry the pieces of one transfer.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ravnest/base/mutex.h"
#include "ravnest/base/status.h"

namespace ravnest::object_store {

// Told now and then how many bytes of a transfer are done; false ends it, with kCancelled, within about a second.
// Called by the transfer's threads, by one at a time. `done` may go back where a piece is sent again.
using Progress = std::function<bool(std::uint64_t done, std::uint64_t all)>;

class Crew {
 public:
  // `done` bytes of `all` were there before.
  Crew(std::uint64_t done, std::uint64_t all, Progress progress)
      : all_(all), progress_(std::move(progress)), done_(done) {}

  // What one piece's work reports by, for the thread that does it.
  class Piece {
   public:
    // Bytes of this piece so far. False where the work should end.
    bool moved(std::uint64_t bytes) { return crew_.moved(*this, bytes); }

   private:
    friend class Crew;
    explicit Piece(Crew& crew) : crew_(crew) {}
    Crew& crew_;
    std::uint64_t bytes_ = 0;
  };

  // `work` for each number, by `threads` of them; returns when all are done, or, with the first failure, when those
  // that were begun have ended.
  Status run(const std::vector<std::size_t>& pieces, int threads,
             const std::function<Status(std::size_t number, Piece& piece)>& work);

 private:
  bool moved(Piece& piece, std::uint64_t bytes);
  void fail(Status status);

  const std::uint64_t all_;
  const Progress progress_;
  Mutex mutex_;
  std::uint64_t done_ RAVNEST_GUARDED_BY(mutex_);
  std::size_t next_ RAVNEST_GUARDED_BY(mutex_) = 0;
  Status failure_ RAVNEST_GUARDED_BY(mutex_);
};

}  // namespace ravnest::object_store
