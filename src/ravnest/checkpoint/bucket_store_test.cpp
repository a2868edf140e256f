#include "ravnest/checkpoint/bucket_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/checkpoint/names.h"
#include "ravnest/checkpoint/testing/checkpoints.h"
#include "ravnest/object_store/testing/answering_http.h"
#include "ravnest/object_store/testing/memory_s3.h"

namespace ravnest::checkpoint {
namespace {

namespace fs = std::filesystem;
using object_store::HttpAnswer;
using object_store::HttpRequest;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::small_stage;
using testing::told;

// One of several clients of a server.
class Client final : public object_store::HttpClient {
 public:
  explicit Client(object_store::MemoryS3& server) : server_(server) {}
  Result<HttpAnswer> send(const HttpRequest& request) override { return server_.send(request); }

 private:
  object_store::MemoryS3& server_;
};

class BucketStores : public test::FolderTest {
 protected:
  // A holder on a machine, which is a folder for its cache.
  std::unique_ptr<BucketStore> store(const std::string& holder, const std::string& machine = "here",
                                     const std::string& key = "runs/7", bool has_others_that_lead = false) {
    auto requests = std::make_unique<object_store::Requests>(
        object_store::read_settings(object_store::test_environment()).value(), object_store::test_environment(),
        std::make_unique<Client>(server_), object_store::RequestOptions(), surroundings_.surroundings());
    auto objects = std::make_unique<object_store::ObjectStore>(std::move(requests), object_store::StoreOptions());
    return std::make_unique<BucketStore>(std::move(objects), object_store::ObjectName{"lab", key}, folder_ / machine,
                                         StoreOptions{.holder = holder, .has_others_that_lead = has_others_that_lead});
  }

  static Manifest manifest_of(std::uint64_t updates, std::vector<PartEntry> parts, const std::string& run) {
    Manifest manifest;
    manifest.run = run;
    manifest.strategy = "pipeline";
    manifest.plan = "plan a";
    manifest.updates = updates;
    manifest.order = testing::small_order();
    manifest.parts = std::move(parts);
    return manifest;
  }

  // What two nodes and the root do, for updates one after the other.
  void make(const std::vector<std::uint64_t>& all, const Retention& retention = {}, const std::string& run = "run a") {
    const auto first = store("node_0");
    const auto second = store("node_1");
    ASSERT_TRUE(first->begin_run(run).ok());
    ASSERT_TRUE(second->begin_run(run).ok());
    for (const std::uint64_t updates : all) {
      std::vector<PartEntry> parts;
      for (const auto& [each, stage] : {std::pair(first.get(), 0), std::pair(second.get(), 1)})
        parts.push_back(write_part(each->folder(updates), small_stage(stage, updates, run)).value());
      const Manifest manifest = manifest_of(updates, parts, run);
      Status unpruned;
      ASSERT_TRUE(first->keep(manifest, retention, unpruned).ok());
      ASSERT_TRUE(second->keep(manifest, retention, unpruned).ok());
      ASSERT_TRUE(first->upload_part(updates, parts[0].file).ok());
      ASSERT_TRUE(second->upload_part(updates, parts[1].file).ok());
      ASSERT_TRUE(first->upload_manifest(manifest, retention, unpruned).ok());
      ASSERT_TRUE(unpruned.ok()) << unpruned;
    }
  }

  static VerifyOptions parts(std::set<std::string> names) {
    VerifyOptions options;
    options.parts = std::move(names);
    return options;
  }

  static std::vector<std::uint64_t> updates_in(const Result<Listing>& listing) {
    std::vector<std::uint64_t> updates;
    for (const Checkpoint& each : listing.value().complete) updates.push_back(each.manifest.updates);
    return updates;
  }

  std::string key(std::uint64_t updates, std::string_view file) const {
    return text("runs/7/", folder_name(updates), "/", file);
  }

  // Keys whose objects were asked for in this way, in their order.
  std::vector<std::string> sent(const std::string& method) const {
    std::vector<std::string> keys;
    for (const std::string& each : server_.sent()) {
      if (each.starts_with(method + " /lab/")) keys.push_back(each.substr(method.size() + 6));
    }
    return keys;
  }

  object_store::MemoryS3 server_;
  object_store::TestSurroundings surroundings_;
};

TEST_F(BucketStores, AnotherMachineFetchesThePartsThatItNeeds) {
  make({80, 120});
  const auto other = store("node_1", "there");
  const Checkpoint newest = other->find("last").value();
  EXPECT_EQ(newest.folder, "s3://lab/runs/7/update_000000120");
  ASSERT_TRUE(other->check(newest, {}).ok());
  const Checkpoint here = other->fetch(newest, {"stage_1"}).value();
  EXPECT_EQ(told(read_part_of(here, "stage_1").value()), told(small_stage(1, 120)));
  EXPECT_FALSE(fs::exists(here.folder / "stage_0.safetensors"));
  const std::size_t asked = server_.sent().size();
  ASSERT_TRUE(other->fetch(newest, {"stage_1"}).ok());
  EXPECT_EQ(server_.sent().size(), asked) << "it is here";
  EXPECT_TRUE(read_whole(other->fetch(newest, {}).value()).ok());
}

TEST_F(BucketStores, TheManifestIsPutWhenAllElseIsThere) {
  make({80});
  EXPECT_THAT(sent("PUT"), ElementsAre(key(80, "stage_0.safetensors"), key(80, "stage_1.safetensors"),
                                       key(80, kIndexFile), key(80, kManifestFile)));
}

TEST_F(BucketStores, OutdatedOnesGoManifestFirstHereAndThere) {
  make({80, 120, 160, 200}, {.keep = 1});
  EXPECT_THAT(updates_in(store("node_0", "there")->list()), ElementsAre(200));
  std::vector<std::string> removed = sent("DELETE");
  removed.resize(4);
  EXPECT_THAT(removed, ElementsAre(key(80, kManifestFile), key(80, kIndexFile), key(80, "stage_0.safetensors"),
                                   key(80, "stage_1.safetensors")));
  EXPECT_EQ(server_.objects().size(), 4);
  const auto again = store("node_0");
  ASSERT_TRUE(again->begin_run("run a").ok());
  EXPECT_TRUE(fs::exists(again->folder(120)));
  EXPECT_FALSE(fs::exists(again->folder(80))) << "three stay on this machine";
}

TEST_F(BucketStores, WhatAnotherClusterSRootHasPutGoesToo) {
  Status unpruned;
  const auto first = store("node_0", "here", "runs/7", /*has_others_that_lead=*/true);
  const auto second = store("node_2", "there", "runs/7", /*has_others_that_lead=*/true);
  for (BucketStore* each : {first.get(), second.get()}) ASSERT_TRUE(each->begin_run("run a").ok());
  const auto put = [&](BucketStore& own, std::uint64_t updates) {
    const auto part = write_part(own.folder(updates), small_stage(0, updates, "run a")).value();
    const Manifest manifest = manifest_of(updates, {part}, "run a");
    ASSERT_TRUE(own.keep(manifest, {}, unpruned).ok());
    ASSERT_TRUE(own.upload_part(updates, part.file).ok());
    ASSERT_TRUE(own.upload_manifest(manifest, {}, unpruned).ok());
  };
  for (const std::uint64_t updates : {80, 120}) put(*first, updates);
  const std::size_t fetched = sent("GET").size();
  for (const std::uint64_t updates : {160, 200}) put(*second, updates);
  EXPECT_THAT(updates_in(second->list()), ElementsAre(200, 160));
  EXPECT_EQ(sent("GET").size() - fetched, 2 + 2) << "the manifests that it does not know, and those of the list";
}

TEST_F(BucketStores, PartsWithoutAManifestAreNoCheckpointAndGoBehindThoseThatStay) {
  server_.put(key(40, "stage_0.safetensors"), "torn");
  server_.put(key(100, "stage_0.safetensors"), "its upload may still be made up for");
  server_.put(key(40, "notes.txt"), "of somebody");
  EXPECT_THAT(updates_in(store("node_0", "there")->list()), ElementsAre());
  make({80, 120});
  EXPECT_FALSE(server_.objects().contains(key(40, "stage_0.safetensors")));
  EXPECT_TRUE(server_.objects().contains(key(40, "notes.txt")));
  EXPECT_TRUE(server_.objects().contains(key(100, "stage_0.safetensors")));
}

TEST_F(BucketStores, ARunThatGoesOnFurtherBackTakesThePlacesOfNewerOnes) {
  make({80, 120, 160}, {.keep = 0});
  const auto root = store("node_0");
  const auto other = store("node_1");
  for (const auto& [each, leads] : {std::pair(root.get(), true), std::pair(other.get(), false)}) {
    ASSERT_TRUE(each->begin_run("run a").ok());
    const std::size_t objects = server_.objects().size();
    ASSERT_TRUE(each->remove_newer(80, leads).ok());
    EXPECT_EQ(server_.objects().size() < objects, leads);
    EXPECT_FALSE(fs::exists(each->folder(120)));
  }
  EXPECT_THAT(updates_in(store("node_0")->list()), ElementsAre(80));
}

TEST_F(BucketStores, AnotherRunIsRefused) {
  make({80});
  const Status refused = store("node_0")->begin_run("run b");
  EXPECT_THAT(refused.message(),
              AllOf(HasSubstr("s3://lab/runs/7 has checkpoints of another run: update_000000080 is of run run a"),
                    HasSubstr("give this run a folder of its own")));
  EXPECT_TRUE(store("node_0", "here", "runs/8")->begin_run("run b").ok());
}

TEST_F(BucketStores, WhatIsMissingTornOrAnotherFileIsNamed) {
  make({80});
  const auto other = store("node_0", "there");
  const Checkpoint newest = other->find("").value();
  const auto stage = [&](const std::string& bytes, const std::string& sha256) {
    server_.put(key(80, "stage_1.safetensors"), bytes, sha256);
    return other->check(newest, parts({"stage_1"})).message();
  };
  const object_store::MemoryS3::Object good = server_.objects().at(key(80, "stage_1.safetensors"));
  EXPECT_THAT(stage(good.bytes.substr(1), ""), HasSubstr("stage_1.safetensors is torn: it has"));
  EXPECT_THAT(stage(good.bytes, std::string(64, '0')), HasSubstr("is another file: its SHA-256 is 0000"));
  // A server that keeps no words beside objects finds nothing here; the digest does when it was fetched.
  std::string damaged = good.bytes;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  EXPECT_EQ(stage(damaged, ""), "");
  EXPECT_THAT(other->fetch(newest, {"stage_1"}).status().message(), HasSubstr("is damaged: its SHA-256 is"));
  EXPECT_EQ(stage(good.bytes, ""), "");
  EXPECT_TRUE(other->fetch(newest, {"stage_1"}).ok()) << "what is damaged here is fetched anew";
  ASSERT_TRUE(store("command")->remove({newest.folder, manifest_of(80, {newest.manifest.parts[1]}, "run a")}).ok());
  server_.put(key(80, kManifestFile), encode(newest.manifest));
  EXPECT_THAT(store("node_0", "elsewhere")->check(newest, {}).message(),
              HasSubstr("stage_1.safetensors is not there; node_1 has written it"));
}

TEST_F(BucketStores, OneWhoseUploadFailedStaysHereAndCanBeGoneOnFrom) {
  make({80});
  const auto node = store("node_0");
  ASSERT_TRUE(node->begin_run("run a").ok());
  const PartEntry part = write_part(node->folder(120), small_stage(0, 120)).value();
  Status unpruned;
  ASSERT_TRUE(node->keep(manifest_of(120, {part}, "run a"), {}, unpruned).ok());
  server_.instead = [](const HttpRequest& request) -> std::optional<Result<HttpAnswer>> {
    if (request.method != "PUT") return std::nullopt;
    return HttpAnswer{403, {}, "<Error><Code>AccessDenied</Code></Error>"};
  };
  EXPECT_THAT(node->upload_part(120, part.file).message(), HasSubstr("403 AccessDenied"));
  EXPECT_EQ(node->command_to_upload(120),
            text("ravnest cp -r ", node->folder(120).string(), " s3://lab/runs/7/update_000000120"));
  const auto again = store("node_0");
  EXPECT_THAT(updates_in(again->list()), ElementsAre(120, 80));
  const Checkpoint newest = again->find("newest").value();
  EXPECT_TRUE(again->check(newest, parts({"stage_0"})).ok());
  EXPECT_EQ(again->fetch(newest, {"stage_0"}).value().folder, node->folder(120));
  EXPECT_THAT(updates_in(store("node_0", "there")->list()), ElementsAre(80));
}

TEST_F(BucketStores, WhoMayNotWriteHearsItBeforeTheRun) {
  EXPECT_TRUE(store("node_0")->check_access().ok());
  EXPECT_TRUE(server_.objects().empty());
  EXPECT_TRUE(server_.uploads().empty());
  server_.instead = [](const HttpRequest& request) -> std::optional<Result<HttpAnswer>> {
    if (request.method != "POST") return std::nullopt;
    return HttpAnswer{403, {}, "<Error><Code>AccessDenied</Code></Error>"};
  };
  EXPECT_THAT(store("node_0")->check_access().message(), HasSubstr("403 AccessDenied"));
}

TEST(PlaceAndWhich, TakesApartWhatIsGoneOnFrom) {
  const auto apart = [](const std::string& named) {
    const PlaceAndWhich both = place_and_which("checkpoints", named);
    return both.place.string() + " " + both.which;
  };
  EXPECT_EQ(apart("newest"), "checkpoints newest");
  EXPECT_EQ(apart("last"), "checkpoints newest");
  EXPECT_EQ(apart("120"), "checkpoints 120");
  EXPECT_EQ(apart("other/update_000000120"), "checkpoints other/update_000000120");
  EXPECT_EQ(apart("s3://lab/run"), "s3://lab/run newest");
  EXPECT_EQ(apart("s3://lab/run/"), "s3://lab/run newest");
  EXPECT_EQ(apart("s3://lab/run/last"), "s3://lab/run newest");
  EXPECT_EQ(apart("s3://lab/run/best"), "s3://lab/run best");
  EXPECT_EQ(apart("s3://lab/run/update_000000120"), "s3://lab/run update_000000120");
  EXPECT_EQ(apart("s3://lab/last"), "s3://lab newest");
  EXPECT_EQ(apart("s3://last"), "s3://last newest");
}

}  // namespace
}  // namespace ravnest::checkpoint
