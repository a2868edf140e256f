// Any bytes as a node's package: read or refused; what is read has only paths that may be written and comes through our
// writer unchanged.
// The mutator makes not only the checksums right but mostly the manifest's digests too.
#include <algorithm>

#include "ravnest/archive/testing/fuzz_zip.h"
#include "ravnest/identity/identity.h"
#include "ravnest/identity/sha256.h"
#include "ravnest/plan/files/package.h"

namespace {

using namespace ravnest;
using namespace ravnest::plan;
using fuzzing::below;
using fuzzing::into;
using fuzzing::Random;
using fuzzing::Records;
using fuzzing::require;

// Said anew, and more simply than the reader says it.
bool may_be_written(const std::string& path, const std::string& node) {
  if (path == "plan.json" || path == "nodes/" + node + ".json") return true;
  for (const char c : path) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '\\') return false;
  }
  return path.starts_with("cluster_") && std::count(path.begin(), path.end(), '/') == 2 &&
         path.find("/.") == std::string::npos && path.find("//") == std::string::npos && !path.ends_with('/');
}

void check(const Package& package) {
  for (const PackedFile& file : package.files) {
    require(may_be_written(file.path, package.node), "every path is one that may be written");
    require(file.is_private || !file.path.ends_with("/identity.key"), "the key is private");
  }
  ByteWriter out;
  require(write_package(package, into(out)).ok(), "what is read can be written");
  const Result<Package> again = read_package(out.bytes());
  require(again.ok() && again->node == package.node && again->folder == package.folder &&
              again->files.size() == package.files.size(),
          "what is written reads back the same");
  const auto text_of = [&](std::string_view name) {
    return std::string(as_string_view(package.file(package.folder + "/" + std::string(name)).value()));
  };
  static_cast<void>(identity::check_identity({text_of(identity::kCertificateFile), text_of(identity::kKeyFile)},
                                             text_of(identity::kAuthorityFile), package.node,
                                             identity::WallTime(std::chrono::hours(500'000))));
}

// The manifest's sizes and digests made right for the records as they are.
void correct(Records& records) {
  std::string* text = nullptr;
  Result<nlohmann::json> manifest = corrupt("none");
  for (auto& [name, contents] : records) {
    if (name != "manifest.json") continue;
    manifest = parse_json(contents, name);
    text = &contents;
  }
  if (!manifest.ok() || !manifest->is_object() || !manifest->contains("files")) return;
  nlohmann::json& files = (*manifest)["files"];
  if (!files.is_array()) return;
  for (nlohmann::json& item : files) {
    for (const auto& [name, contents] : records) {
      if (!item.is_object() || !item.contains("path") || item["path"] != name) continue;
      item["bytes"] = contents.size();
      item["sha256"] = identity::sha256(as_byte_span(contents)).value();
    }
  }
  *text = manifest->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void change(Records& records, Random& random) {
  auto& [name, contents] = records[below(random, records.size())];
  switch (random() % 8) {
    case 0: name = fuzzing::mutated_bytes(name, 8); break;
    case 1: std::swap(records[below(random, records.size())], records.back()), records.pop_back(); break;
    default: contents = fuzzing::changed(contents, random);
  }
  if (random() % 4 != 0) correct(records);
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int seed) {
  return fuzzing::mutate_archive(data, size, max_size, seed, change);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteSpan bytes = std::as_bytes(std::span(data, size));
  const Result<Package> package = read_package(bytes);
  if (package.ok()) {
    check(*package);
    fuzzing::accepted().remember(as_string_view(bytes));
  } else {
    require(!package.status().message().empty(), "a refusal says why");
  }
  return 0;
}
