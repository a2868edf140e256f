#include "ravnest/train/node/node_uploads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "ravnest/base/clock.h"

namespace ravnest::train {
namespace {

using checkpoint::Checkpoint;
using checkpoint::Manifest;
using checkpoint::Retention;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A bucket that notes what is put, one at a time, and holds or refuses what the test wants.
class Bucket final : public checkpoint::Store {
 public:
  Bucket() : Store({}) {}

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
  Result<checkpoint::Listing> list() override { return checkpoint::Listing(); }
  Result<Checkpoint> find(std::string_view /*which*/) override { return not_found("none"); }
  Status check(const Checkpoint& /*checkpoint*/, const checkpoint::VerifyOptions& /*options*/) override { return {}; }
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

// A root and one stage after it; what they tell the root arrives at once.
class Uploads : public ::testing::Test {
 protected:
  std::unique_ptr<NodeUploads> node(Bucket& bucket, int stage, Retention retention = {}) {
    NodeUploadsOptions options;
    options.retention = retention;
    options.nodes = {"node_0", "node_1"};
    options.tell_root = [this, stage](wire::PartUploaded said) { root_->on_part(stage, said); };
    options.warn = [this](const std::string& line) {
      const MutexLock lock(mutex_);
      lines_.push_back(line);
    };
    return std::make_unique<NodeUploads>(bucket, std::move(options));
  }
  void begin(Retention retention = {}) {
    root_ = node(own_, 0, retention);
    other_ = node(others_, 1);
  }
  static Manifest manifest_of(std::uint64_t updates) {
    Manifest manifest;
    manifest.updates = updates;
    return manifest;
  }
  void make(std::uint64_t updates) {
    root_->upload(updates, "stage_0");
    other_->upload(updates, "stage_1");
    root_->complete(manifest_of(updates));
  }
  // As calls do at their end: the others first.
  void settle() {
    other_->settle();
    root_->settle();
  }
  std::vector<std::string> lines() const {
    const MutexLock lock(mutex_);
    return lines_;
  }

  mutable Mutex mutex_;
  std::vector<std::string> lines_ RAVNEST_GUARDED_BY(mutex_);
  Bucket own_;
  Bucket others_;
  std::unique_ptr<NodeUploads> root_;
  std::unique_ptr<NodeUploads> other_;

  ~Uploads() override { other_.reset(); }  // it tells the root
};

TEST_F(Uploads, TheManifestFollowsWhenAllPartsAreUp) {
  begin();
  others_.hold(true);
  make(80);
  root_->settle();
  EXPECT_THAT(own_.there(), ElementsAre("80 stage_0"));
  others_.hold(false);
  settle();
  EXPECT_THAT(own_.there(), ElementsAre("80 stage_0", "80 manifest"));
  EXPECT_THAT(others_.there(), ElementsAre("80 stage_1"));
  EXPECT_THAT(lines(), IsEmpty());
}

TEST_F(Uploads, PartsMayBeUpBeforeTheCheckpointIsComplete) {
  begin();
  root_->upload(80, "stage_0");
  other_->upload(80, "stage_1");
  settle();
  EXPECT_THAT(own_.there(), ElementsAre("80 stage_0"));
  root_->complete(manifest_of(80));
  root_->settle();
  EXPECT_THAT(own_.there(), ElementsAre("80 stage_0", "80 manifest"));
}

TEST_F(Uploads, TheRootIsBehindWhenTwoAreOnTheirWay) {
  begin();
  others_.hold(true);
  make(80);
  EXPECT_FALSE(root_->is_behind());
  make(120);
  EXPECT_TRUE(root_->is_behind());
  others_.hold(false);
  settle();
  EXPECT_FALSE(root_->is_behind());
  EXPECT_THAT(own_.there(), ElementsAre("80 stage_0", "120 stage_0", "80 manifest", "120 manifest"));
}

TEST_F(Uploads, OnePartThatFailsIsALineAndCostsThatCheckpointAlone) {
  begin();
  others_.refuse("80 stage_1");
  make(80);
  settle();
  make(120);
  settle();
  EXPECT_THAT(own_.there(), ElementsAre("80 stage_0", "120 stage_0", "120 manifest"));
  EXPECT_FALSE(root_->is_behind());
  EXPECT_THAT(lines(), ElementsAre(AllOf(
                           HasSubstr("the checkpoint of update 80 is on the nodes, but not in s3://lab/run: node_1: "),
                           HasSubstr("the server says 500. There `ravnest cp 80` makes up for it"))));
}

TEST_F(Uploads, AFailureMayComeBeforeTheCheckpointIsComplete) {
  begin();
  own_.refuse("80 stage_0");
  root_->upload(80, "stage_0");
  root_->settle();
  other_->upload(80, "stage_1");
  root_->complete(manifest_of(80));
  settle();
  EXPECT_THAT(own_.there(), IsEmpty());
  EXPECT_FALSE(root_->is_behind());
  EXPECT_EQ(lines().size(), 1);
}

TEST_F(Uploads, AManifestThatFailsIsALine) {
  begin();
  own_.refuse("80 manifest");
  make(80);
  settle();
  EXPECT_FALSE(root_->is_behind());
  EXPECT_THAT(lines(),
              ElementsAre(HasSubstr("not in s3://lab/run: node_0: the server says 500. There `ravnest cp 80`")));
}

TEST_F(Uploads, AnOlderOneThatCannotBeRemovedIsALine) {
  begin({.keep = 7});
  make(80);
  settle();
  EXPECT_THAT(lines(), ElementsAre("an older checkpoint could not be removed: the server says 403"));
}

TEST_F(Uploads, TheEndOfARunThatFailedDoesNotWaitForTheNetwork) {
  begin();
  own_.hold(true);
  others_.hold(true);
  make(80);
  other_.reset();
  root_.reset();
  EXPECT_THAT(own_.there(), IsEmpty());
  EXPECT_THAT(lines(), IsEmpty());
}

TEST_F(Uploads, WhoWaitsForTheLastOneIsLetGoWhenTheRunIsToEnd) {
  begin();
  own_.hold(true);
  root_->upload(80, "stage_0");
  own_.stop();
  root_->settle();
  EXPECT_THAT(own_.there(), IsEmpty());
}

}  // namespace
}  // namespace ravnest::train
