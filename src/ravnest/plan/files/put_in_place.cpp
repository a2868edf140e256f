#include "ravnest/plan/files/put_in_place.h"

#include <algorithm>

#include "ravnest/base/file.h"
#include "ravnest/base/json.h"
#include "ravnest/plan/files/folder.h"

namespace ravnest::plan {
namespace {

namespace fs = std::filesystem;

struct EntryList {
  std::string id;  // what the marks in the new entries hold
  std::set<std::string> entries;
};

Result<EntryList> read_list(const fs::path& ready) {
  const fs::path path = ready / kEntryList;
  const Result<std::string> content = read_file(path);
  if (!content.ok()) return content.status();
  const Result<nlohmann::json> parsed = parse_json(*content, path.string());
  if (!parsed.ok()) return parsed.status();
  const Status bad =
      corrupt(path.string(), " does not list a plan's entries: remove ", ready.string(), " and plan again");
  if (!parsed->is_object() || !parsed->contains("id") || !parsed->contains("entries")) return bad;
  const nlohmann::json& id = (*parsed)["id"];
  const nlohmann::json& names = (*parsed)["entries"];
  if (!id.is_string() || !names.is_array()) return bad;
  EntryList list{id, {}};
  for (const auto& name : names) {
    if (!name.is_string() || !is_plan_entry(name.get_ref<const std::string&>())) return bad;
    list.entries.insert(name);
  }
  return list;
}

bool is_marked(const fs::path& entry, const std::string& id) {
  const Result<std::string> mark = read_file(entry / kNewMark);
  return mark.ok() && *mark == id;
}

// Makes a name free. The earlier plan is not needed any more, so where it cannot be moved (a container's file system
// does not move a folder that came with the image) it is removed in its place.
Status put_aside(const fs::path& ready, const fs::path& place, const OnStep& on_step) {
  const fs::path aside = ready / kOldEntries / place.filename();
  Status status = remove_tree(aside);
  if (status.ok() && !move_to(place, aside).ok()) status = remove_tree(place);
  if (status.ok()) on_step("an earlier entry put aside");
  return status;
}

// For file systems that cannot swap: the name is free for a moment.
Status swap_by_moves(const fs::path& ready, const fs::path& successor, const fs::path& place, const OnStep& on_step) {
  if (Status status = put_aside(ready, place, on_step); !status.ok()) return status;
  return move_to(successor, place);
}

Status put_folder(const fs::path& ready, const std::string& id, const fs::path& place, const OnStep& on_step) {
  const fs::path successor = ready / kNewEntries / place.filename();
  if (is_marked(place, id)) return {};  // done before; the successor's name stands for the earlier entry now
  if (!is_marked(successor, id))
    return corrupt(successor.string(), " is missing from the new plan: remove ", ready.string(), " and plan again");
  if (!is_there(place)) return move_to(successor, place);
  const Status swapped = exchange(successor, place);
  return swapped.code() == Code::kUnsupported ? swap_by_moves(ready, successor, place, on_step) : swapped;
}

Status put_file(const fs::path& ready, const fs::path& place) {
  const fs::path successor = ready / kNewEntries / place.filename();
  return is_there(successor) ? move_to(successor, place) : Status();
}

Status put_entries(const fs::path& node_data, const EntryList& list, const OnStep& on_step) {
  const fs::path ready = node_data / kReady;
  for (const std::string& entry : list.entries) {
    const fs::path place = node_data / entry;
    Status status = is_folder_entry(entry) ? put_folder(ready, list.id, place, on_step) : put_file(ready, place);
    if (!status.ok()) return status;
    on_step("an entry put in place");
  }
  return {};
}

Status move_out_others(const fs::path& node_data, const std::set<std::string>& entries, const OnStep& on_step) {
  const Result<std::set<std::string>> present = plan_entries(node_data);
  if (!present.ok()) return present.status();
  for (const std::string& entry : *present) {
    if (entries.contains(entry)) continue;
    if (Status status = put_aside(node_data / kReady, node_data / entry, on_step); !status.ok()) return status;
  }
  return {};
}

}  // namespace

bool is_folder_entry(std::string_view entry) { return entry != "plan.json"; }

Result<std::set<std::string>> plan_entries(const fs::path& folder) {
  const Result<std::vector<std::string>> names = names_in(folder);
  if (!names.ok()) return names.status();
  std::set<std::string> entries;
  for (const std::string& name : *names) {
    if (is_plan_entry(name) && is_folder(folder / name) == is_folder_entry(name)) entries.insert(name);
  }
  return entries;
}

Status list_and_mark(const fs::path& temporary, const std::set<std::string>& entries) {
  const std::string id = temporary.filename().string();
  for (const std::string& entry : entries) {
    if (!is_folder_entry(entry)) continue;
    const fs::path mark = temporary / kNewEntries / entry / kNewMark;
    if (Status status = write_file_atomically(mark, id); !status.ok()) return status;
  }
  const nlohmann::json list = {{"id", id}, {"entries", entries}};
  return write_file_atomically(temporary / kEntryList, list.dump());
}

Status put_in_place(const fs::path& node_data, const OnStep& on_step) {
  const fs::path ready = node_data / kReady;
  const Result<EntryList> list = read_list(ready);
  if (!list.ok()) return list.status();
  if (Status status = move_out_others(node_data, list->entries, on_step); !status.ok()) return status;
  if (Status status = put_entries(node_data, *list, on_step); !status.ok()) return status;
  // All moves must be on the disk before the name changes that makes them look done.
  for (const fs::path& folder : {ready / kNewEntries, ready / kOldEntries, node_data}) {
    if (Status status = sync_folder(folder); !status.ok()) return status;
  }
  if (Status status = move_to(ready, node_data / kOld); !status.ok()) return status;
  on_step("all entries in place");
  return sync_folder(node_data);
}

Status clear_old(const fs::path& node_data, const OnStep& on_step) {
  if (!is_there(node_data / kOld)) return {};
  const Result<std::set<std::string>> entries = plan_entries(node_data);
  if (!entries.ok()) return entries.status();
  for (const std::string& entry : *entries) {
    if (!is_folder_entry(entry)) continue;
    if (Status status = remove_tree(node_data / entry / kNewMark); !status.ok()) return status;
    on_step("a mark removed");
  }
  if (Status status = remove_tree(node_data / kOld); !status.ok()) return status;
  on_step("the earlier plan removed");
  return {};
}

}  // namespace ravnest::plan
