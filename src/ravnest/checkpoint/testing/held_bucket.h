// Where checkpoints go, for tests: it notes what is put, one at a time, and holds or refuses what the test wants.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "ravnest/base/mutex.h"
#include "ravnest/base/text.h"
#include "ravnest/checkpoint/store.h"

namespace ravnest::checkpoint::testing {

class HeldBucket final : public Store {
 public:
  HeldBucket() : Store({}) {}

  std::string name() const override { return "s3://lab/run"; }
  void stop() override {
    const MutexLock lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  Status upload_part(std::uint64_t updates, const std::string& file) override { return put(text(updates, " ", file)); }
  Status upload_manifest(const Manifest& manifest, const Retention& retention, Status& unpruned) override {
    if (retention.keep == 7) unpruned = unavailable("the server says 403");
    return put(text(manifest.updates, " manifest"));
  }
  std::string command_to_upload(std::uint64_t updates) const override { return text("ravnest cp ", updates); }

  std::vector<std::string> there() const {
    const MutexLock lock(mutex_);
    return there_;
  }
  void hold(bool held) {
    const MutexLock lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  void refuse(const std::string& what) {
    const MutexLock lock(mutex_);
    refused_ = what;
  }

  // What is not asked for.
  Status check_access() override { return {}; }
  Result<Listing> list() override { return Listing(); }
  Result<Checkpoint> find(std::string_view /*which*/) override { return not_found("none"); }
  Status check(const Checkpoint& /*checkpoint*/, const VerifyOptions& /*options*/) override { return {}; }
  Result<Checkpoint> fetch(const Checkpoint& checkpoint, const std::set<std::string>& /*parts*/) override {
    return checkpoint;
  }
  Status remove(const Checkpoint& /*checkpoint*/) override { return {}; }
  Status begin_run(const std::string& /*run*/) override { return {}; }
  Status remove_newer(std::uint64_t /*updates*/, bool /*leads*/) override { return {}; }
  std::filesystem::path folder(std::uint64_t /*updates*/) const override { return {}; }
  Status keep(const Manifest& /*manifest*/, const Retention& /*retention*/, Status& /*unpruned*/) override {
    return {};
  }

 private:
  Status put(const std::string& what) {
    const MutexLock lock(mutex_);
    changed_.wait(mutex_, [&]() RAVNEST_REQUIRES(mutex_) { return !held_ || stopped_; });
    if (stopped_) return cancelled("stopped");
    if (what == refused_) return unavailable("the server says 500");
    there_.push_back(what);
    return {};
  }

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::vector<std::string> there_ RAVNEST_GUARDED_BY(mutex_);
  std::string refused_ RAVNEST_GUARDED_BY(mutex_);
  bool held_ RAVNEST_GUARDED_BY(mutex_) = false;
  bool stopped_ RAVNEST_GUARDED_BY(mutex_) = false;
};

}  // namespace ravnest::checkpoint::testing
