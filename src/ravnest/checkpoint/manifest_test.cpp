#include "ravnest/checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "ravnest/base/testing/bad_conditions.h"
#include "ravnest/checkpoint/names.h"
#include "ravnest/checkpoint/testing/checkpoints.h"

namespace ravnest::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::write_small;

Manifest two_parts() {
  Manifest manifest;
  manifest.run = "run a";
  manifest.written = "2026-11-19T12:00:00Z";
  manifest.strategy = "pipeline";
  manifest.plan = "plan a";
  manifest.updates = 120;
  manifest.position = {
      .epoch = 1, .index = 2, .samples = 3, .trained = 4, .passes = 5, .sweep = 6, .validations = 7, .validated = 4};
  manifest.accuracy = 97.5;
  manifest.settings = {{"seed", "42"}};
  manifest.order = {"a", "b"};
  manifest.parts = {{.name = "stage_0",
                     .file = "stage_0.safetensors",
                     .holder = "node_0",
                     .copy = 0,
                     .bytes = 100,
                     .sha256 = std::string(64, 'a'),
                     .tensors = {"a"},
                     .tensor_bytes = 8},
                    {.name = "stage_1",
                     .file = "stage_1.safetensors",
                     .holder = "node_1",
                     .copy = 0,
                     .bytes = 200,
                     .sha256 = std::string(64, 'b'),
                     .tensors = {"a", "b"},
                     .tensor_bytes = 16}};
  return manifest;
}

Status refusal(const std::string& from, const std::string& to) {
  std::string written = encode(two_parts());
  const std::size_t at = written.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << written;
  written.replace(at, from.size(), to);
  const Status status = decode_manifest(written, "FILE").status();
  EXPECT_THAT(status.message(), HasSubstr("FILE"));
  return status;
}

TEST(Manifest, ComesThroughWhole) {
  EXPECT_EQ(decode_manifest(encode(two_parts()), "FILE").value(), two_parts());
  Manifest manifest = two_parts();
  manifest.accuracy.reset();
  std::swap(manifest.parts[0], manifest.parts[1]);
  EXPECT_EQ(decode_manifest(encode(manifest), "FILE").value().parts, two_parts().parts) << "sorted";
  EXPECT_EQ(encode(manifest), encode(decode_manifest(encode(manifest), "FILE").value()));
}

TEST(Manifest, EntryComesThroughAlone) {
  const PartEntry entry = two_parts().parts[1];
  EXPECT_EQ(decode_part_entry(encode(entry), "an entry").value(), entry);
  EXPECT_EQ(decode_part_entry("{}", "an entry").status().code(), Code::kCorrupt);
}

TEST(Manifest, WhatContradictsItselfIsCorrupt) {
  EXPECT_EQ(refusal("\"run\"", "\"ran\"").code(), Code::kCorrupt);
  EXPECT_EQ(refusal("\"updates\": 120", "\"updates\": -120").code(), Code::kCorrupt);
  EXPECT_EQ(refusal("\"world\": 1", "\"world\": 0").code(), Code::kCorrupt);
  EXPECT_EQ(refusal("stage_1.safetensors", "stage_0.safetensors").code(), Code::kCorrupt);
  EXPECT_EQ(refusal("stage_1.safetensors", "../../x.safetensors").code(), Code::kCorrupt);
  EXPECT_EQ(refusal("aaaa", "AAAA").code(), Code::kCorrupt);
  EXPECT_EQ(refusal("\"copy\": 0", "\"copy\": 4294967296").code(), Code::kCorrupt);
  EXPECT_EQ(refusal("{", "").code(), Code::kCorrupt);
  Manifest empty = two_parts();
  empty.parts.clear();
  EXPECT_EQ(decode_manifest(encode(empty), "FILE").status().code(), Code::kCorrupt);
}

TEST(Manifest, LaterVersionIsRefusedWithBothVersions) {
  const Status status = refusal("\"version\": 1", "\"version\": 2");
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("format version 2"), HasSubstr("reads version 1")));
}

// What readers of sharded safetensors expect, and every tensor once.
TEST(Manifest, IndexNamesTheFirstFileOfEachTensorOfTheFirstCopy) {
  Manifest manifest = two_parts();
  manifest.parts.push_back(manifest.parts[0]);
  manifest.parts[2].name = "cluster_1";
  manifest.parts[2].copy = 1;
  manifest.parts[2].tensors = {"a", "b"};
  const auto index = nlohmann::json::parse(encode_index(manifest));
  EXPECT_EQ(index["weight_map"].dump(), R"({"a":"stage_0.safetensors","b":"stage_1.safetensors"})");
  EXPECT_EQ(index["metadata"]["total_size"], 24);
  EXPECT_EQ(decode_index(encode_index(manifest), "FILE").value().at("b"), "stage_1.safetensors");
  EXPECT_EQ(decode_index(R"({"weight_map": {"a": "/etc/passwd"}})", "FILE").status().code(), Code::kCorrupt);
}

class ManifestFile : public test::FolderTest {};

TEST_F(ManifestFile, WhatCouldNotBeReadAgainIsNotWritten) {
  Manifest manifest = two_parts();
  manifest.order = {"\xff"};
  EXPECT_EQ(write_manifest(folder_, manifest).code(), Code::kInvalid);
  manifest = two_parts();
  manifest.parts[1].file = manifest.parts[0].file;
  EXPECT_EQ(write_manifest(folder_, manifest).code(), Code::kInvalid);
  EXPECT_EQ(test::names_in(folder_).size(), 0);
}

TEST_F(ManifestFile, IsReplacedByWhatWasLearnedSince) {
  const Checkpoint checkpoint = write_small(folder_);
  Manifest manifest = checkpoint.manifest;
  manifest.accuracy = 93.25;
  ASSERT_EQ(write_manifest(checkpoint.folder, manifest), Status());
  EXPECT_EQ(read_manifest(checkpoint.folder).value(), manifest);
}

TEST_F(ManifestFile, FolderWithoutOneIsNotFound) { EXPECT_EQ(read_manifest(folder_).status().code(), Code::kNotFound); }

TEST(CheckpointNames, FoldersStandInTheOrderOfTheirUpdates) {
  EXPECT_EQ(folder_name(120), "update_000000120");
  EXPECT_EQ(folder_name(12'345'678'901), "update_12345678901");
  EXPECT_EQ(updates_of("update_000000120"), 120);
  for (const char* other : {"update_120", "update_", "update_00000012x", "trained", "update_-00000001"})
    EXPECT_EQ(updates_of(other), std::nullopt) << other;
}

TEST(CheckpointNames, PartFilesAreNamesOfLettersAndDigits) {
  EXPECT_TRUE(is_part_file("cluster_1_stage_0.safetensors"));
  for (const char* other : {".safetensors", "../a.safetensors", "a/b.safetensors", "a.b.safetensors", "stage_0"})
    EXPECT_FALSE(is_part_file(other)) << other;
}

}  // namespace
}  // namespace ravnest::checkpoint
