#include <string>
#include <vector>

#include "ravnest/base/file.h"
#include "ravnest/plan/files/folder.h"
#include "ravnest/plan/files/node_files.h"
#include "ravnest/plan/files/pack.h"
#include "ravnest/plan/files/package.h"
#include "ravnest/plan/files/replacement.h"

namespace ravnest::plan {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kReadableMode = 0644;

std::string content(const Package& package, std::string_view path) {
  return std::string(as_string_view(package.file(path).value()));
}

// Of a node's folder, below the package's own paths.
std::string in_folder(const Package& package, std::string_view name) { return text(package.folder, "/", name); }

Status check_identity_of(const Package& package, identity::WallTime now) {
  const identity::Identity identity{content(package, in_folder(package, identity::kCertificateFile)),
                                    content(package, in_folder(package, identity::kKeyFile))};
  return identity::check_identity(identity, content(package, in_folder(package, identity::kAuthorityFile)),
                                  package.node, now);
}

bool holds_the_same_plan(const fs::path& node_data, const Package& package) {
  const Result<std::string> plan = read_file(node_data / kPlanFile);
  return plan.ok() && *plan == content(package, kPlanFile);
}

// The same file under a second name, or a copy where that cannot be.
Status keep_file(const fs::path& from, const fs::path& to) {
  std::error_code error;
  const bool is_link = fs::is_symlink(fs::symlink_status(from, error));
  if (!is_link) fs::create_hard_link(from, to, error);
  if (!is_link && !error) return {};
  error.clear();
  fs::copy_file(from, to, error);
  return error ? system_failure(text("copy ", from.string(), " to"), to, error.value()) : Status();
}

Status keep_folder(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_directory(to, from, error);
  if (error) return system_failure("create", to, error.value());
  const Result<std::vector<std::string>> names = names_in(from);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    const auto keep = is_folder(from / name) ? keep_folder : keep_file;
    if (Status status = keep(from / name, to / name); !status.ok()) return status;
  }
  return {};
}

// Brings what the plan has in node_data already into the new folder.
Status keep_plan(const fs::path& node_data, const fs::path& folder) {
  const Result<std::vector<std::string>> names = names_in(node_data);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (!is_plan_entry(name) || !is_folder(node_data / name)) continue;
    if (Status status = keep_folder(node_data / name, folder / name); !status.ok()) return status;
  }
  return {};
}

// Every node of one plan has the same authority; a package that comes with another is not of the plan that it claims.
Status check_authority(const fs::path& folder, const Package& package) {
  const std::string ours = content(package, in_folder(package, identity::kAuthorityFile));
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename() != identity::kAuthorityFile) continue;
    const Result<std::string> theirs = read_file(at->path());
    if (!theirs.ok()) return theirs.status();
    if (*theirs != ours)
      return invalid("the package of ", package.node, " has the same plan as the nodes that are here already, but ",
                     "another authority: unpack packages of one plan only, or use another folder");
  }
  return error ? system_failure("read", folder, error.value()) : Status();
}

// Takes what there was of this very node out of the new folder.
Status make_room(const fs::path& folder, const Package& package) {
  const fs::path file = folder / node_file(package.node);
  const Result<std::string> earlier = read_file(file);
  const Result<std::string> its_folder =
      earlier.ok() ? node_folder(*earlier, package.node) : Result<std::string>(earlier.status());
  const bool is_ours = its_folder.ok() && *its_folder == package.folder;
  if (!is_ours && is_there(folder / package.folder))
    return invalid("the package of ", package.node, " would overwrite ", package.folder,
                   ", which is another node's: unpack packages of one plan only, or use another folder");
  if (Status status = remove_tree(file); !status.ok()) return status;
  return its_folder.ok() ? remove_tree(folder / *its_folder) : Status();
}

Status write_files(const fs::path& folder, const Package& package) {
  for (const PackedFile& file : package.files) {
    const fs::path path = folder / file.path;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) return system_failure("create", path.parent_path(), error.value());
    const unsigned mode = file.is_private ? kPrivateMode : kReadableMode;
    if (Status status = write_file_atomically(path, file.bytes, mode); !status.ok()) return status;
  }
  return {};
}

Status lay_out(const Package& package, const fs::path& node_data) {
  Result<Replacement> replacement = Replacement::begin(node_data);
  if (!replacement.ok()) return replacement.status();
  const fs::path folder = replacement->folder();
  if (holds_the_same_plan(node_data, package)) {
    if (Status status = keep_plan(node_data, folder); !status.ok()) return status;
    if (Status status = make_room(folder, package); !status.ok()) return status;
    if (Status status = check_authority(folder, package); !status.ok()) return status;
  }
  if (Status status = write_files(folder, package); !status.ok()) return status;
  return replacement->commit();
}

}  // namespace

Result<UnpackedNode> unpack(const fs::path& archive, const fs::path& node_data, identity::WallTime now) {
  const Result<MappedFile> file = MappedFile::open(archive);
  if (!file.ok()) return file.status();
  const Result<Package> package = read_package(file->bytes());
  if (!package.ok()) return package.status().with_context(archive.string());
  if (Status status = check_identity_of(*package, now); !status.ok()) return status.with_context(archive.string());
  if (Status status = lay_out(*package, node_data); !status.ok()) return status;
  UnpackedNode unpacked{package->node, node_data / package->folder, 0, 0};
  for (const PackedFile& each : package->files) {
    ++unpacked.files;
    unpacked.bytes += each.bytes.size();
  }
  return unpacked;
}

}  // namespace ravnest::plan
