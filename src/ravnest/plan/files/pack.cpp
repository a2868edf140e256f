#include "ravnest/plan/files/pack.h"

#include <deque>
#include <vector>

#include "ravnest/base/file.h"
#include "ravnest/base/printable.h"
#include "ravnest/plan/files/folder.h"
#include "ravnest/plan/files/node_files.h"
#include "ravnest/plan/files/package.h"
#include "ravnest/plan/files/replacement.h"

namespace ravnest::plan {
namespace {

namespace fs = std::filesystem;

// The files of one node, mapped for as long as the object lives.
class NodeFiles {
 public:
  explicit NodeFiles(fs::path node_data) : node_data_(std::move(node_data)) {}

  Status add(const std::string& path) {
    Result<MappedFile> file = MappedFile::open(node_data_ / path);
    if (!file.ok()) return file.status();
    std::error_code error;
    const fs::perms others = fs::perms::group_all | fs::perms::others_all;
    const fs::perms mode = fs::status(node_data_ / path, error).permissions();
    if (error) return system_failure("examine", node_data_ / path, error.value());
    mapped_.push_back(std::move(*file));
    const bool is_key = path.ends_with(text("/", identity::kKeyFile));
    files_.push_back({path, mapped_.back().bytes(), is_key || (mode & others) == fs::perms::none});
    return {};
  }

  const std::vector<PackedFile>& files() const { return files_; }

 private:
  fs::path node_data_;
  std::deque<MappedFile> mapped_;
  std::vector<PackedFile> files_;
};

// Names that begin with a dot are of files being written, or of other programs.
Result<std::vector<std::string>> files_in(const fs::path& folder) {
  Result<std::vector<std::string>> names = names_in(folder);
  if (!names.ok()) return names;
  std::erase_if(*names, [](const std::string& name) { return name.starts_with('.'); });
  for (const std::string& name : *names) {
    std::error_code ignored;
    if (!fs::is_regular_file(folder / name, ignored))
      return invalid("cannot pack ", (folder / name).string(), ": only files can be packed; move it elsewhere");
  }
  return names;
}

Status collect(const fs::path& node_data, std::string_view node_name, NodeFiles& files) {
  if (Status status = files.add(std::string(kPlanFile)); !status.ok())
    return status.with_context("there is no plan to pack");
  if (Status status = files.add(node_file(node_name)); !status.ok())
    return status.with_context(text("the plan has no ", node_name));
  const Result<std::string> folder = node_folder(as_string_view(files.files().back().bytes), node_name);
  if (!folder.ok()) return folder.status();
  const Result<std::vector<std::string>> names = files_in(node_data / *folder);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (Status status = files.add(text(*folder, "/", name)); !status.ok()) return status;
  }
  return {};
}

// The files were mapped one by one; a plan put in place meanwhile would have left a mixture of two in our hands.
Status check_unchanged(const fs::path& node_data, const NodeFiles& files) {
  const bool pending = is_replacement_pending(node_data);
  const Result<std::string> plan = read_file(node_data / kPlanFile);
  if (!pending && plan.ok() && *plan == as_string_view(files.files().front().bytes)) return {};
  return unavailable("the plan in ", node_data.string(), " was replaced while it was being packed; pack again");
}

}  // namespace

Status pack(const fs::path& node_data, std::string_view node_name, const fs::path& archive) {
  if (!is_node_name(node_name))
    return invalid("\"", printable(node_name), "\" is not the name of a node; they are called node_0, node_1, ...");
  if (Status status = finish_replacement(node_data); !status.ok()) return status;
  NodeFiles files(node_data);
  if (Status status = collect(node_data, node_name, files); !status.ok()) return status;
  if (Status status = check_unchanged(node_data, files); !status.ok()) return status;
  Result<AtomicFile> out = AtomicFile::create(archive, kPrivateMode);
  if (!out.ok()) return out.status();
  const Package package{std::string(node_name), "", files.files()};
  if (Status status = write_package(package, [&](ByteSpan bytes) { return out->append(bytes); }); !status.ok())
    return status;
  return out->commit();
}

}  // namespace ravnest::plan
