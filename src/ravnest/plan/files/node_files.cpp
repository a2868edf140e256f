#include "ravnest/plan/files/node_files.h"

#include <algorithm>

#include "ravnest/base/json.h"
#include "ravnest/base/printable.h"
#include "ravnest/base/text.h"

namespace ravnest::plan {
namespace {

constexpr std::string_view kNodePrefix = "node_";
constexpr std::string_view kClusterPrefix = "cluster_";
constexpr std::size_t kLongestComponent = 200;  // leaves room for what AtomicFile adds to it, within the usual 255

// The prefix and a number of up to nine digits, written the one way.
bool is_numbered(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && name.size() <= 9 && (name.size() == 1 || name.front() != '0') &&
         std::all_of(name.begin(), name.end(), is_digit);
}

}  // namespace

bool is_node_name(std::string_view name) { return is_numbered(name, kNodePrefix); }

std::string node_file(std::string_view node_name) { return text("nodes/", node_name, ".json"); }

bool is_plain_component(std::string_view name) {
  return !name.empty() && name.size() <= kLongestComponent && name.front() != '.' &&
         name.find_first_of("/\\") == std::string_view::npos && printable(name) == name;
}

Result<std::string> node_folder(std::string_view node_json, std::string_view node_name) {
  const std::string what = node_file(node_name);
  const Result<nlohmann::json> node = parse_json(node_json, what);
  if (!node.ok()) return node.status();
  const auto field = [&](const char* key) { return node->is_object() ? node->value(key, nlohmann::json()) : *node; };
  const nlohmann::json id = field("node_id");
  if (!id.is_number_integer() || text(kNodePrefix, id.dump()) != node_name)
    return corrupt(what, " is not of ", node_name, ": its node_id is ", printable(id.dump()).substr(0, 40));
  const nlohmann::json path = field("template_path");
  std::string_view rest = path.is_string() ? path.get_ref<const std::string&>() : std::string_view();
  const auto take_last = [&rest] {
    const std::size_t slash = rest.find_last_of('/');
    const std::string_view last = slash == std::string_view::npos ? rest : rest.substr(slash + 1);
    rest = slash == std::string_view::npos ? std::string_view() : rest.substr(0, slash);
    return last;
  };
  const bool slash_at_end = take_last().empty();
  const std::string_view folder = take_last();
  const std::string_view cluster = take_last();
  if (!slash_at_end || !is_numbered(cluster, kClusterPrefix) || !is_plain_component(folder))
    return corrupt(what, ": template_path does not end in cluster_N/ADDRESS/");
  return text(cluster, "/", folder);
}

}  // namespace ravnest::plan
