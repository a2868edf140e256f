#include "ravnest/plan/files/package.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/base/json.h"
#include "ravnest/identity/sha256.h"
#include "ravnest/plan/files/node_files.h"

namespace ravnest::plan {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const std::string kFolder = "cluster_1/10.0.0.7:8080/";

// A package in its parts, to be changed before it is put together.
struct Parts {
  std::vector<std::pair<std::string, std::string>> records{
      {"plan.json", "{}"},
      {"nodes/node_3.json", R"({"node_id": 3, "template_path": "node_data/cluster_1/10.0.0.7:8080/"})"},
      {kFolder + "identity.ca", "authority"},
      {kFolder + "identity.crt", "certificate"},
      {kFolder + "identity.key", "key"},
      {kFolder + "submod.pt", std::string(1000, 'w')}};
  json manifest = {{"format", "ravnest node package"}, {"version", 1}, {"node", "node_3"}};

  // The list of files as it should be, for the records as they are now.
  Parts& list() {
    manifest["files"] = json::array();
    for (const auto& [path, content] : records) {
      manifest["files"].push_back({{"path", path},
                                   {"bytes", content.size()},
                                   {"sha256", identity::sha256(as_byte_span(content)).value()},
                                   {"mode", path.ends_with(".key") ? "600" : "644"}});
    }
    return *this;
  }

  std::vector<std::byte> archive() const {
    ByteWriter out;
    archive::ZipWriter writer([&](ByteSpan bytes) {
      out.bytes(bytes);
      return Status();
    });
    EXPECT_EQ(writer.add("manifest.json", manifest.dump(-1, ' ', false, json::error_handler_t::replace)), Status());
    for (const auto& [path, content] : records) EXPECT_EQ(writer.add(path, content), Status());
    EXPECT_EQ(writer.finish(), Status());
    return out.take();
  }

  Status refusal() const {
    const std::vector<std::byte> bytes = archive();
    const Status status = read_package(bytes).status();
    EXPECT_FALSE(status.ok());
    return status;
  }
};

TEST(Package, WhatIsWrittenReadsBackTheSame) {
  const std::vector<std::byte> first = Parts().list().archive();
  const auto package = read_package(first);
  ASSERT_TRUE(package.ok()) << package.status();
  EXPECT_EQ(package->node, "node_3");
  EXPECT_EQ(package->folder, "cluster_1/10.0.0.7:8080");
  ByteWriter out;
  const auto sink = [&](ByteSpan bytes) {
    out.bytes(bytes);
    return Status();
  };
  ASSERT_EQ(write_package(*package, sink), Status());
  const auto again = read_package(out.bytes());
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ(again->files.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(again->files[i].path, package->files[i].path);
    EXPECT_EQ(as_string_view(again->files[i].bytes), Parts().records[i].second);
    EXPECT_EQ(again->files[i].is_private, again->files[i].path == kFolder + "identity.key");
  }
}

TEST(Package, ManifestOfVersionOneIsAsDescribedAndComesFirst) {
  Parts parts;
  parts.list();
  const std::vector<std::byte> archive = parts.archive();
  const auto package = read_package(archive);
  ByteWriter out;
  ASSERT_EQ(write_package(*package,
                          [&](ByteSpan bytes) {
                            out.bytes(bytes);
                            return Status();
                          }),
            Status());
  const auto zip = archive::ZipReader::open(out.bytes());
  const std::string_view manifest = as_string_view(zip->record("manifest.json").value());
  EXPECT_EQ(json::parse(manifest), parts.manifest);
  EXPECT_EQ(as_string_view(out.bytes()).find("manifest.json"), 30U) << "right after the first record's header";
  EXPECT_THAT(std::string(manifest),
              HasSubstr(R"("sha256": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a")"));
}

TEST(Package, EveryByteCutOffIsNoticed) {
  const std::vector<std::byte> archive = Parts().list().archive();
  for (std::size_t size = 0; size < archive.size(); ++size) {
    const std::vector<std::byte> part(archive.begin(), archive.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(read_package(part).status().code(), Code::kCorrupt) << size;
  }
}

TEST(Package, ChangedByteOfAnyFileIsNoticed) {
  for (std::size_t i = 0; i < Parts().records.size(); ++i) {
    Parts parts;
    parts.list().records[i].second.back() ^= 1;
    const Status status = parts.refusal();
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_THAT(status.message(), HasSubstr(parts.records[i].first + " is not what was packed"));
  }
}

TEST(Package, WrongLengthIsNamed) {
  Parts parts;
  parts.list().records[5].second += "x";
  EXPECT_THAT(parts.refusal().message(), HasSubstr("submod.pt has 1001 bytes where the manifest says 1000"));
}

TEST(Package, FileOfTheManifestThatIsMissingIsNamed) {
  Parts parts;
  parts.list().records.pop_back();
  EXPECT_THAT(parts.refusal().message(), HasSubstr("lacks " + kFolder + "submod.pt, which its manifest lists"));
}

TEST(Package, FileThatEveryPackageNeedsIsMissed) {
  for (std::size_t i = 0; i < 5; ++i) {
    Parts parts;
    const std::string path = parts.records[i].first;
    parts.records.erase(parts.records.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_EQ(parts.list().refusal(), corrupt("the package of node_3 lacks ", path));
  }
}

TEST(Package, FileThatTheManifestDoesNotListIsRefused) {
  Parts parts;
  parts.list().records.emplace_back(kFolder + "more", "x");
  EXPECT_THAT(parts.refusal().message(), HasSubstr("not in its manifest"));
}

TEST(Package, FileListedTwiceIsRefused) {
  Parts parts;
  parts.list().manifest["files"].push_back(parts.manifest["files"][0]);
  EXPECT_THAT(parts.refusal().message(), HasSubstr("plan.json twice"));
}

TEST(Package, PathsThatLeadElsewhereAreRefused) {
  for (const std::string& path : {std::string("../plan.json"),
                                  std::string("/etc/passwd"),
                                  kFolder + "../x",
                                  kFolder + "..",
                                  kFolder + ".",
                                  kFolder + ".plan.new",
                                  kFolder + "a/b",
                                  kFolder + "a\\b",
                                  kFolder + "a\nb",
                                  kFolder + std::string("a\0b", 3),
                                  kFolder + "\xff",
                                  kFolder,
                                  kFolder + std::string(300, 'x'),
                                  "./" + kFolder + "x",
                                  "//" + kFolder + "x",
                                  std::string("cluster_1/other/x"),
                                  std::string("cluster_2/10.0.0.7:8080/x"),
                                  std::string("nodes/node_4.json"),
                                  std::string("authority/ca.key"),
                                  std::string("node_configs.json"),
                                  std::string("cluster_1/10.0.0.7:8080"),
                                  std::string("")}) {
    Parts parts;
    parts.records.emplace_back(path, "x");
    EXPECT_EQ(parts.list().refusal().code(), Code::kCorrupt) << path;
  }
}

TEST(Package, TemplatePathsThatLeadElsewhereAreRefused) {
  for (const char* path :
       {"", "/", "//", "cluster_1/10.0.0.7:8080", "cluster_1/../", "../x/", "cluster_x/a/", "cluster_01/a/", "nodes/a/",
        "authority/a/", "cluster_1//", "cluster_1/.hidden/", "node_data/cluster_1/a\\b/"}) {
    Parts parts;
    parts.records[1].second = json{{"node_id", 3}, {"template_path", path}}.dump();
    EXPECT_THAT(parts.list().refusal().message(), HasSubstr("template_path does not end in cluster_N/ADDRESS/"))
        << path;
  }
}

TEST(Package, FolderIsTheLastTwoPartsOfTheTemplatePath) {
  const auto folder = [](const std::string& path) {
    return node_folder(json{{"node_id", 3}, {"template_path", path}}.dump(), "node_3");
  };
  EXPECT_EQ(folder("node_data/cluster_0/0.0.0.0:8080/").value(), "cluster_0/0.0.0.0:8080");
  EXPECT_EQ(folder("cluster_12/[::1]:8080/").value(), "cluster_12/[::1]:8080");
  EXPECT_EQ(folder("/somewhere/else/cluster_0/host:1/").value(), "cluster_0/host:1");
}

TEST(Package, FileOfAnotherNodeIsRefused) {
  Parts parts;
  parts.records[1].second = R"({"node_id": 4, "template_path": "node_data/cluster_1/10.0.0.7:8080/"})";
  EXPECT_EQ(parts.list().refusal(), corrupt("nodes/node_3.json is not of node_3: its node_id is 4"));
  for (const char* not_a_node : {"[]", "3", "{}", "null", "{\"node_id\": \"3\"}", "{"}) {
    parts.records[1].second = not_a_node;
    EXPECT_EQ(parts.list().refusal().code(), Code::kCorrupt) << not_a_node;
  }
}

TEST(Package, KeyThatWouldBeReadableByOthersIsRefused) {
  Parts parts;
  parts.list().manifest["files"][4]["mode"] = "644";
  EXPECT_THAT(parts.refusal().message(), HasSubstr("identity.key would be readable by others"));
}

TEST(Package, AnotherVersionIsUnsupportedAndSaysWhatToDo) {
  Parts parts;
  parts.list().manifest["version"] = 2;
  EXPECT_EQ(parts.refusal(), unsupported("the package is of version 2 and this ravnest reads version 1: use the same "
                                         "version of ravnest for pack and unpack"));
}

TEST(Package, ManifestThatIsNoneIsCorrupt) {
  const auto with = [](const char* key, const json& value) {
    Parts parts;
    parts.list().manifest[key] = value;
    return parts.refusal().code();
  };
  EXPECT_EQ(with("format", "another"), Code::kCorrupt);
  EXPECT_EQ(with("version", "1"), Code::kCorrupt);
  for (const char* name : {"", "node_", "node_03", "node_3x", "../node_3", "node_9999999999"})
    EXPECT_EQ(with("node", name), Code::kCorrupt) << name;
  EXPECT_EQ(with("files", json::object()), Code::kCorrupt);
  for (const char* key : {"path", "bytes", "sha256", "mode"}) {
    for (const json& value : {json(), json(-1), json(7.5), json("x"), json::array()}) {
      Parts parts;
      parts.list().manifest["files"][0][key] = value;
      EXPECT_EQ(parts.refusal().code(), Code::kCorrupt) << key << " " << value;
    }
  }
  Parts parts;
  parts.manifest = json::array();
  EXPECT_EQ(parts.refusal().code(), Code::kCorrupt);
}

TEST(Package, PlanThatIsNotJsonIsRefused) {
  Parts parts;
  parts.records[0].second = "plan";
  EXPECT_THAT(parts.list().refusal().message(), HasSubstr("plan.json: not valid JSON"));
}

TEST(Package, WhatCouldNotBeReadIsNotWritten) {
  const std::vector<std::byte> archive = Parts().list().archive();
  Package package = read_package(archive).value();
  package.files.push_back({"../x", {}, false});
  int written = 0;
  const Status status = write_package(package, [&](ByteSpan) {
    ++written;
    return Status();
  });
  EXPECT_EQ(status, corrupt("\"../x\" has no place in the package of node_3"));
  EXPECT_EQ(written, 0);
}

}  // namespace
}  // namespace ravnest::plan
