#include "ravnest/plan/files/replacement.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/base/file.h"
#include "ravnest/plan/files/put_in_place.h"

namespace ravnest::plan {
namespace {

namespace fs = std::filesystem;

// See temporary_beside.
bool is_leftover(std::string_view name) {
  return name.starts_with(".plan.") && name.ends_with(".tmp") &&
         name.size() == std::string_view(".plan.12345678.tmp").size();
}

Status remove_leftovers(const fs::path& node_data) {
  const Result<std::vector<std::string>> names = names_in(node_data);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (!is_leftover(name)) continue;
    if (Status status = remove_tree(node_data / name); !status.ok()) return status;
  }
  return {};
}

Status make_folders(const fs::path& temporary) {
  for (const fs::path& folder : {temporary, temporary / kNewEntries, temporary / kOldEntries}) {
    // What lies in there is nobody else's business while it is unfinished, or old.
    if (Status status = make_folder(folder, 0700); !status.ok()) return status;
  }
  return {};
}

// The entries that the caller made, each found to be one that can go into place.
Result<std::set<std::string>> checked_entries(const fs::path& filled, const fs::path& node_data) {
  Result<std::set<std::string>> entries = plan_entries(filled);
  if (!entries.ok()) return entries;
  const Result<std::vector<std::string>> names = names_in(filled);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (!entries->contains(name))
      return invalid(name, " cannot be put into ", node_data.string(), ": it is no part of a plan");
  }
  const Result<std::set<std::string>> present = plan_entries(node_data);
  if (!present.ok()) return present;
  for (const std::string& entry : *entries) {
    if (is_there(node_data / entry) && !present->contains(entry))
      return invalid((node_data / entry).string(), " is in the way of the new plan: it is no ",
                     is_folder_entry(entry) ? "folder" : "file", "; move it elsewhere");
  }
  return entries;
}

// What is pending in node_data, carried to its end; the lock is held.
Status carry_on(const fs::path& node_data, const OnStep& on_step) {
  if (is_replacement_pending(node_data)) {
    // Never there with the other, unless a file system lost the order of things; put_in_place needs the name.
    if (Status status = remove_tree(node_data / kOld); !status.ok()) return status;
    if (Status status = put_in_place(node_data, on_step); !status.ok())
      return status.with_context(text("a new plan is written to ", node_data.string(), " but not yet in place"));
  }
  return clear_old(node_data, on_step)
      .with_context(text("the plan in ", node_data.string(), " is whole, but the one before it cannot be removed"));
}

}  // namespace

bool is_plan_entry(std::string_view name) {
  if (name == "nodes" || name == "authority" || name == "plan.json") return true;
  constexpr std::string_view kCluster = "cluster_";
  if (!name.starts_with(kCluster) || name.size() == kCluster.size()) return false;
  name.remove_prefix(kCluster.size());
  return std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

Result<Replacement> Replacement::begin(const fs::path& node_data, OnStep on_step) {
  std::error_code error;
  fs::create_directories(node_data, error);
  if (error) return system_failure("create", node_data, error.value());
  Result<FolderLock> lock = FolderLock::take(node_data);
  if (lock.status().code() == Code::kUnavailable)
    return unavailable("another plan is being written to ", node_data.string(), "; try again when it is done");
  if (!lock.ok()) return lock.status();
  if (!on_step) on_step = [](std::string_view) {};
  if (Status status = carry_on(node_data, on_step); !status.ok()) return status;
  if (Status status = remove_leftovers(node_data); !status.ok()) return status;
  Replacement replacement(node_data, std::move(*lock), std::move(on_step));
  if (Status status = make_folders(replacement.temporary_); !status.ok())
    return status.with_context(text("cannot write a plan to ", node_data.string()));
  replacement.on_step_("begun");
  return replacement;
}

Replacement::Replacement(fs::path node_data, FolderLock lock, OnStep on_step)
    : node_data_(std::move(node_data)),
      lock_(std::move(lock)),
      on_step_(std::move(on_step)),
      temporary_(temporary_beside(node_data_ / "plan")) {}

Replacement::Replacement(Replacement&& other) noexcept
    : node_data_(std::move(other.node_data_)),
      lock_(std::exchange(other.lock_, std::nullopt)),
      on_step_(std::move(other.on_step_)),
      temporary_(std::exchange(other.temporary_, {})) {}

Replacement& Replacement::operator=(Replacement&& other) noexcept {
  if (this != &other) {
    discard();
    node_data_ = std::move(other.node_data_);
    lock_ = std::exchange(other.lock_, std::nullopt);
    on_step_ = std::move(other.on_step_);
    temporary_ = std::exchange(other.temporary_, {});
  }
  return *this;
}

Replacement::~Replacement() { discard(); }

void Replacement::discard() noexcept {
  if (temporary_.empty()) return;
  // What cannot be removed now, the next replacement removes.
  std::error_code ignored;
  fs::remove_all(std::exchange(temporary_, {}), ignored);
}

fs::path Replacement::folder() const { return temporary_ / kNewEntries; }

Status Replacement::commit() {
  if (temporary_.empty()) return invalid("the plan in ", node_data_.string(), " was committed already");
  const Result<std::set<std::string>> entries = checked_entries(folder(), node_data_);
  if (!entries.ok()) return entries.status();
  if (Status status = list_and_mark(temporary_, *entries); !status.ok()) return status;
  on_step_("entries listed");
  if (Status status = sync_tree(temporary_); !status.ok()) return status;
  on_step_("all on the disk");
  if (Status status = move_to(temporary_, node_data_ / kReady); !status.ok()) return status;
  temporary_.clear();
  on_step_("committed");
  Status status = sync_folder(node_data_);
  if (status.ok()) status = carry_on(node_data_, on_step_);
  lock_.reset();
  return status;
}

bool is_replacement_pending(const fs::path& node_data) { return is_there(node_data / kReady); }

Status finish_replacement(const fs::path& node_data, std::chrono::milliseconds patience) {
  const OnStep no_step = [](std::string_view) {};
  if (!is_replacement_pending(node_data)) {
    if (!is_there(node_data / kOld)) return {};
    // The plan is whole; only its predecessor's rest is in the way. Whoever may remove it does so.
    if (Result<FolderLock> lock = FolderLock::take(node_data); lock.ok() && !is_replacement_pending(node_data))
      static_cast<void>(clear_old(node_data, no_step));
    return {};
  }
  const Result<FolderLock> lock = FolderLock::take(node_data, patience);
  if (lock.status().code() == Code::kUnavailable)
    return unavailable("a plan is just being put in place in ", node_data.string(), "; try again when it is done");
  if (!lock.ok()) return lock.status();
  return carry_on(node_data, no_step);
}

}  // namespace ravnest::plan
