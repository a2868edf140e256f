#include "ravnest/plan/files/pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ravnest/archive/zip.h"
#include "ravnest/base/testing/bad_conditions.h"
#include "ravnest/base/testing/folders.h"
#include "ravnest/plan/files/replacement.h"

namespace ravnest::plan {
namespace {

namespace fs = std::filesystem;
using test::contents_of;
using ::testing::HasSubstr;
using Contents = std::map<std::string, std::string>;

std::string address(int node) { return "0.0.0.0:808" + std::to_string(node); }
std::string folder_of_node(int node) { return "cluster_" + std::to_string(node / 2) + "/" + address(node) + "/"; }
std::string name_of(int node) { return "node_" + std::to_string(node); }

// A plan of four nodes in two clusters, as the planner leaves it.
void write_plan(const fs::path& node_data, const identity::Authority& authority, const std::string& plan) {
  test::write(node_data / "plan.json", plan);
  test::write(node_data / "node_configs.json", "{}");
  test::write(node_data / "authority" / "ca.key", authority.key(), kPrivateMode);
  for (int node = 0; node < 4; ++node) {
    test::write(
        node_data / "nodes" / (name_of(node) + ".json"),
        R"({"node_id": )" + std::to_string(node) + R"(, "template_path": "node_data/)" + folder_of_node(node) + "\"}");
    const fs::path folder = node_data / folder_of_node(node);
    test::write(folder / "submod.pt", "weights of " + name_of(node));
    test::write(folder / "model_inputs.pkl", "");
    ASSERT_EQ(identity::write_identity(folder, authority.issue(name_of(node)).value(), authority.certificate()),
              Status());
  }
}

class PackTest : public ::testing::Test {
 protected:
  void SetUp() override { write_plan(source_, authority_, R"({"id": "p1"})"); }

  fs::path packed(int node) const { return packed(node, source_); }
  fs::path packed(int node, const fs::path& source) const {
    const fs::path archive = folder_.path() / (source.filename().string() + name_of(node) + ".ravnest");
    EXPECT_EQ(pack(source, name_of(node), archive), Status());
    return archive;
  }

  // What the source has of some nodes, without the authority's key.
  Contents part_of(const std::set<int>& nodes) const {
    Contents part;
    for (auto& [path, content] : contents_of(source_)) {
      bool wanted = path == "plan.json";
      for (const int node : nodes)
        wanted |= path.starts_with(folder_of_node(node)) || path == "nodes/" + name_of(node) + ".json";
      if (wanted) part[path] = content;
    }
    return part;
  }

  test::TemporaryFolder folder_;
  fs::path source_ = folder_.path() / "source";
  fs::path target_ = folder_.path() / "target";
  identity::Authority authority_ = identity::Authority::create("p1").value();
};

TEST_F(PackTest, NodeComesThroughWholeAndAlone) {
  const auto unpacked = unpack(packed(3), target_);
  ASSERT_TRUE(unpacked.ok()) << unpacked.status();
  EXPECT_EQ(contents_of(target_), part_of({3}));
  EXPECT_EQ(unpacked->node, "node_3");
  EXPECT_EQ(unpacked->folder, target_ / "cluster_1" / "0.0.0.0:8083");
  EXPECT_EQ(unpacked->files, 7);
  std::uint64_t bytes = 0;
  for (const auto& [path, content] : contents_of(target_)) bytes += content.size();
  EXPECT_EQ(unpacked->bytes, bytes);
}

TEST_F(PackTest, KeyAndArchiveAreTheirOwnersOnly) {
  const mode_t old = ::umask(0);
  const fs::path archive = packed(3);
  const auto unpacked = unpack(archive, target_);
  ::umask(old);
  ASSERT_TRUE(unpacked.ok()) << unpacked.status();
  EXPECT_EQ(test::mode_of(archive), 0600U);
  EXPECT_EQ(test::mode_of(unpacked->folder / "identity.key"), 0600U);
  EXPECT_EQ(test::mode_of(unpacked->folder / "identity.crt"), 0644U);
}

TEST_F(PackTest, KeyThatSomebodyMadeReadableIsPrivateAgainOnTheOtherSide) {
  fs::permissions(source_ / folder_of_node(3) / "identity.key", fs::perms(0644));
  const auto unpacked = unpack(packed(3), target_);
  ASSERT_TRUE(unpacked.ok()) << unpacked.status();
  EXPECT_EQ(test::mode_of(unpacked->folder / "identity.key"), 0600U);
}

TEST_F(PackTest, ArchiveHoldsNeitherTheAuthoritysKeyNorOtherNodesFiles) {
  const std::string bytes = read_file(packed(3)).value();
  EXPECT_EQ(bytes.find(authority_.key()), std::string::npos);
  const auto zip = archive::ZipReader::open(as_byte_span(bytes));
  std::set<std::string> expected{"manifest.json"};
  for (const auto& [path, content] : part_of({3})) expected.insert(path);
  const std::vector<std::string> names = zip->names();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()), expected);
}

TEST_F(PackTest, SecondNodeOfThePlanJoinsTheFirst) {
  for (const int node : {2, 3, 0}) ASSERT_EQ(unpack(packed(node), target_).status(), Status());
  EXPECT_EQ(contents_of(target_), part_of({0, 2, 3}));
  EXPECT_EQ(test::mode_of(target_ / folder_of_node(2) / "identity.key"), 0600U);
}

TEST_F(PackTest, NodeUnpackedAgainReplacesItsOwnFilesOnly) {
  ASSERT_EQ(unpack(packed(2), target_).status(), Status());
  ASSERT_EQ(unpack(packed(3), target_).status(), Status());
  test::write(target_ / folder_of_node(3) / "stale", "x");
  test::write(target_ / folder_of_node(2) / "losses.txt", "the other's");
  ASSERT_EQ(unpack(packed(3), target_).status(), Status());
  Contents expected = part_of({2, 3});
  expected[folder_of_node(2) + "losses.txt"] = "the other's";
  EXPECT_EQ(contents_of(target_), expected);
}

TEST_F(PackTest, UnpackingWhereThePlanWasMadeKeepsTheAuthority) {
  const Contents before = contents_of(source_);
  ASSERT_EQ(unpack(packed(3), source_).status(), Status());
  EXPECT_EQ(contents_of(source_), before);
}

TEST_F(PackTest, AnotherPlanReplacesTheFirstEntirely) {
  ASSERT_EQ(unpack(packed(0), target_).status(), Status());
  test::write(target_ / "node_configs.json", "the user's");
  const fs::path other = folder_.path() / "other";
  write_plan(other, identity::Authority::create("p2").value(), R"({"id": "p2"})");
  ASSERT_EQ(unpack(packed(3, other), target_).status(), Status());
  source_ = other;
  Contents expected = part_of({3});
  expected["node_configs.json"] = "the user's";
  EXPECT_EQ(contents_of(target_), expected);
}

TEST_F(PackTest, SamePlanFromAnotherAuthorityIsRefused) {
  ASSERT_EQ(unpack(packed(2), target_).status(), Status());
  const fs::path other = folder_.path() / "other";
  write_plan(other, identity::Authority::create("p1").value(), R"({"id": "p1"})");
  const Status status = unpack(packed(3, other), target_).status();
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_THAT(status.message(), HasSubstr("another authority"));
  EXPECT_EQ(contents_of(target_), part_of({2}));
}

TEST_F(PackTest, PackageThatClaimsAnotherNodesFolderIsRefused) {
  ASSERT_EQ(unpack(packed(2), target_).status(), Status());
  test::write(source_ / "nodes" / "node_3.json",
              R"({"node_id": 3, "template_path": "node_data/)" + folder_of_node(2) + "\"}");
  ASSERT_EQ(identity::write_identity(source_ / folder_of_node(2), authority_.issue("node_3").value(),
                                     authority_.certificate()),
            Status());
  const Contents before = contents_of(target_);
  const Status status = unpack(packed(3), target_).status();
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_THAT(status.message(), HasSubstr("would overwrite cluster_1/0.0.0.0:8082"));
  EXPECT_EQ(contents_of(target_), before);
}

TEST_F(PackTest, ChangedByteAnywhereIsNoticedAndNothingIsWritten) {
  const std::string good = read_file(packed(3)).value();
  const fs::path archive = folder_.path() / "changed";
  for (std::size_t at = 0; at < good.size(); at += 101) {
    std::string bytes = good;
    bytes[at] ^= 0x20;
    test::write(archive, bytes);
    const auto unpacked = unpack(archive, target_);
    // Padding and times of the zip itself may change; what is unpacked may not.
    if (unpacked.ok()) {
      EXPECT_EQ(contents_of(target_), part_of({3})) << at;
      fs::remove_all(target_);
    } else {
      EXPECT_FALSE(fs::exists(target_)) << at;
      EXPECT_THAT(unpacked.status().message(), HasSubstr(archive.string()));
    }
  }
}

TEST_F(PackTest, CutOffArchiveIsCorruptAndNamed) {
  const std::string good = read_file(packed(3)).value();
  test::write(folder_.path() / "cut", good.substr(0, good.size() / 2));
  const Status status = unpack(folder_.path() / "cut", target_).status();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr((folder_.path() / "cut").string()));
  EXPECT_FALSE(fs::exists(target_));
}

TEST_F(PackTest, IdentityOfAnotherNodeIsRefusedBeforeAnythingIsWritten) {
  for (const char* file : {"identity.crt", "identity.key", "identity.ca"})
    fs::copy_file(source_ / folder_of_node(2) / file, source_ / folder_of_node(3) / file,
                  fs::copy_options::overwrite_existing);
  const Status status = unpack(packed(3), target_).status();
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_THAT(status.message(), HasSubstr("not of node_3"));
  EXPECT_FALSE(fs::exists(target_));
}

TEST_F(PackTest, IdentityThatHasRunOutIsRefused) {
  const auto later = std::chrono::system_clock::now() + std::chrono::hours(24) * 365 * 6;
  EXPECT_THAT(unpack(packed(3), target_, later).status().message(), HasSubstr("ran out on"));
  EXPECT_FALSE(fs::exists(target_));
}

TEST_F(PackTest, WhatIsMissingFromThePlanIsNamed) {
  const fs::path archive = folder_.path() / "x";
  EXPECT_EQ(pack(source_, "3", archive).code(), Code::kInvalid);
  EXPECT_EQ(pack(source_, "node_7", archive).code(), Code::kNotFound);
  EXPECT_THAT(pack(source_, "node_7", archive).message(), HasSubstr("the plan has no node_7"));
  EXPECT_THAT(pack(folder_.path() / "nothing", "node_3", archive).message(), HasSubstr("there is no plan to pack"));
  fs::remove(source_ / folder_of_node(3) / "identity.crt");
  EXPECT_THAT(pack(source_, "node_3", archive).message(), HasSubstr("lacks cluster_1/0.0.0.0:8083/identity.crt"));
  EXPECT_FALSE(fs::exists(archive));
}

TEST_F(PackTest, FolderAmongTheNodesFilesIsNamedAndHiddenFilesAreLeftOut) {
  const Contents expected = part_of({3});
  test::write(source_ / folder_of_node(3) / ".submod.pt.abcdefgh.tmp", "half");
  ASSERT_EQ(unpack(packed(3), target_).status(), Status());
  EXPECT_EQ(contents_of(target_), expected);
  test::write(source_ / folder_of_node(3) / "more" / "x", "x");
  const Status status = pack(source_, "node_3", folder_.path() / "x");
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_THAT(status.message(), HasSubstr("only files can be packed"));
}

TEST_F(PackTest, InterruptedPlanIsFinishedBeforeItIsPacked) {
  const Contents expected = part_of({3});
  const fs::path fresh = folder_.path() / "fresh";
  ASSERT_EQ(test::in_child([&] {
              auto replacement = Replacement::begin(fresh, [](std::string_view step) {
                if (step == "committed") ::_exit(77);
              });
              for (const char* entry : {"plan.json", "nodes", "cluster_0", "cluster_1"})
                fs::copy(source_ / entry, replacement->folder() / entry, fs::copy_options::recursive);
              static_cast<void>(replacement->commit());
              return 0;
            }),
            77);
  ASSERT_FALSE(fs::exists(fresh / "plan.json"));
  ASSERT_EQ(unpack(packed(3, fresh), target_).status(), Status());
  EXPECT_EQ(contents_of(target_), expected);
}

TEST_F(PackTest, FullDiskOnTheOtherSideKeepsWhatWasThere) {
  const test::SmallDisk disk(folder_.path() / "disk", 256 << 10);
  if (!disk.mounted()) GTEST_SKIP() << "only root can mount a small disk";
  const fs::path target = disk.path() / "node_data";
  ASSERT_EQ(unpack(packed(2), target).status(), Status());
  test::write(source_ / folder_of_node(3) / "submod.pt", std::string(400 << 10, 'w'));
  const Status status = unpack(packed(3), target).status();
  EXPECT_EQ(status.code(), Code::kUnavailable) << status;
  EXPECT_EQ(contents_of(target), part_of({2}));
}

}  // namespace
}  // namespace ravnest::plan
