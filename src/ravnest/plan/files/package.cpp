#include "ravnest/plan/files/package.h"

#include <algorithm>
#include <set>

#include "ravnest/base/json.h"
#include "ravnest/base/printable.h"
#include "ravnest/identity/identity.h"
#include "ravnest/identity/sha256.h"
#include "ravnest/plan/files/node_files.h"

namespace ravnest::plan {
namespace {

using nlohmann::json;

constexpr const char* kManifest = "manifest.json";
constexpr const char* kFormat = "ravnest node package";
constexpr int kVersion = 1;
constexpr const char* kOrdinary = "644";
constexpr const char* kPrivate = "600";

// One item of the manifest's list.
struct Listed {
  std::string path;
  std::uint64_t bytes = 0;
  std::string sha256;
  bool is_private = false;
};

Result<Listed> read_listed(const json& item) {
  const auto field = [&](const char* key) { return item.is_object() ? item.value(key, json()) : json(); };
  const json path = field("path");
  const json bytes = field("bytes");
  const json digest = field("sha256");
  const json mode = field("mode");
  if (!path.is_string() || !bytes.is_number_unsigned() || !digest.is_string() ||
      (mode != kOrdinary && mode != kPrivate))
    return corrupt("the manifest's list of files has an item that is not one: ",
                   printable(item.dump(-1, ' ', false, json::error_handler_t::replace)).substr(0, 200));
  return Listed{path, bytes, digest, mode == kPrivate};
}

Result<json> read_manifest(const archive::ZipReader& zip) {
  if (!zip.contains(kManifest)) return corrupt("this is not a package of a node: it has no ", kManifest);
  const Result<ByteSpan> bytes = zip.record(kManifest);
  if (!bytes.ok()) return bytes.status();
  Result<json> manifest = parse_json(as_string_view(*bytes), kManifest);
  if (!manifest.ok()) return manifest;
  const auto field = [&](const char* key) { return manifest->is_object() ? manifest->value(key, json()) : json(); };
  if (field("format") != kFormat) return corrupt("this is not a package of a node: its manifest says nothing of one");
  const json version = field("version");
  if (!version.is_number_integer()) return corrupt(kManifest, " has no version");
  if (version != kVersion)
    return unsupported("the package is of version ", version.dump(), " and this ravnest reads version ", kVersion,
                       ": use the same version of ravnest for pack and unpack");
  const json node = field("node");
  if (!node.is_string() || !is_node_name(node.get_ref<const std::string&>()))
    return corrupt(kManifest, " names no node");
  if (!field("files").is_array()) return corrupt(kManifest, " has no list of files");
  return manifest;
}

Result<PackedFile> read_packed(const archive::ZipReader& zip, const Listed& listed) {
  const std::string shown = printable(listed.path);
  if (!zip.contains(listed.path)) return corrupt("the package lacks ", shown, ", which its manifest lists");
  const Result<ByteSpan> bytes = zip.record(listed.path);
  if (!bytes.ok()) return bytes.status();
  if (bytes->size() != listed.bytes)
    return corrupt(shown, " has ", bytes->size(), " bytes where the manifest says ", listed.bytes);
  const Result<std::string> digest = identity::sha256(*bytes);
  if (!digest.ok()) return digest.status();
  if (*digest != listed.sha256) return corrupt(shown, " is not what was packed: its SHA-256 differs");
  return PackedFile{listed.path, *bytes, listed.is_private};
}

// Twice the same is refused before it is read twice: a short manifest must not mean long work.
Result<std::vector<PackedFile>> read_files(const archive::ZipReader& zip, const json& list) {
  std::vector<PackedFile> files;
  std::set<std::string> unlisted;
  for (std::string& name : zip.names()) {
    if (name != kManifest) unlisted.insert(std::move(name));
  }
  for (const json& item : list) {
    const Result<Listed> listed = read_listed(item);
    if (!listed.ok()) return listed.status();
    if (zip.contains(listed->path) && unlisted.erase(listed->path) == 0)
      return corrupt("the manifest must not list ", printable(listed->path), " twice or itself");
    Result<PackedFile> file = read_packed(zip, *listed);
    if (!file.ok()) return file.status();
    files.push_back(std::move(*file));
  }
  if (!unlisted.empty()) return corrupt(printable(*unlisted.begin()), " is in the archive but not in its manifest");
  return files;
}

bool is_in_folder(std::string_view path, std::string_view folder) {
  return path.size() > folder.size() + 1 && path.starts_with(folder) && path[folder.size()] == '/' &&
         is_plain_component(path.substr(folder.size() + 1));
}

Status check_paths(const Package& package) {
  std::set<std::string_view> seen;
  for (const PackedFile& file : package.files) {
    const bool allowed =
        file.path == kPlanFile || file.path == node_file(package.node) || is_in_folder(file.path, package.folder);
    if (!allowed) return corrupt("\"", printable(file.path), "\" has no place in the package of ", package.node);
    if (!seen.insert(file.path).second) return corrupt(printable(file.path), " is in the package twice");
    if (file.path == text(package.folder, "/", identity::kKeyFile) && !file.is_private)
      return corrupt(file.path, " would be readable by others");
  }
  return {};
}

// Finds the node's folder and checks all that a package has to be.
Status complete(Package& package) {
  const Result<ByteSpan> node = package.file(node_file(package.node));
  if (!node.ok()) return node.status();
  Result<std::string> folder = node_folder(as_string_view(*node), package.node);
  if (!folder.ok()) return folder.status();
  package.folder = std::move(*folder);
  if (Status status = check_paths(package); !status.ok()) return status;
  for (const std::string_view name : {identity::kCertificateFile, identity::kKeyFile, identity::kAuthorityFile}) {
    const Result<ByteSpan> found = package.file(text(package.folder, "/", name));
    if (!found.ok()) return found.status();
  }
  const Result<ByteSpan> plan = package.file(kPlanFile);
  return plan.ok() ? parse_json(as_string_view(*plan), kPlanFile).status() : plan.status();
}

Result<json> manifest_of(const Package& package) {
  json files = json::array();
  for (const PackedFile& file : package.files) {
    const Result<std::string> digest = identity::sha256(file.bytes);
    if (!digest.ok()) return digest.status();
    files.push_back({{"path", file.path},
                     {"bytes", file.bytes.size()},
                     {"sha256", *digest},
                     {"mode", file.is_private ? kPrivate : kOrdinary}});
  }
  return json{{"format", kFormat}, {"version", kVersion}, {"node", package.node}, {"files", std::move(files)}};
}

}  // namespace

Result<ByteSpan> Package::file(std::string_view path) const {
  const auto found =
      std::find_if(files.begin(), files.end(), [&](const PackedFile& each) { return each.path == path; });
  if (found == files.end()) return corrupt("the package of ", node, " lacks ", printable(path));
  return found->bytes;
}

Result<Package> read_package(ByteSpan archive) {
  const Result<archive::ZipReader> zip = archive::ZipReader::open(archive);
  if (!zip.ok()) return Status(zip.status().code(), printable(zip.status().message()));
  const Result<json> manifest = read_manifest(*zip);
  if (!manifest.ok()) return manifest.status();
  Package package;
  package.node = (*manifest)["node"];
  Result<std::vector<PackedFile>> files = read_files(*zip, (*manifest)["files"]);
  if (!files.ok()) return files.status();
  package.files = std::move(*files);
  if (Status status = complete(package); !status.ok()) return status;
  return package;
}

Status write_package(const Package& package, archive::ZipWriter::Sink sink) {
  Package checked = package;
  if (Status status = complete(checked); !status.ok()) return status;
  const Result<json> manifest = manifest_of(package);
  if (!manifest.ok()) return manifest.status();
  archive::ZipWriter writer(std::move(sink));
  if (Status status = writer.add(kManifest, manifest->dump(1) + "\n"); !status.ok()) return status;
  for (const PackedFile& file : package.files) {
    if (Status status = writer.add(file.path, file.bytes); !status.ok()) return status;
  }
  return writer.finish();
}

}  // namespace ravnest::plan
