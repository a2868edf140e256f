#include "ravnest/plan/files/write.h"

#include <map>
#include <nlohmann/json.hpp>

#include "ravnest/base/file.h"
#include "ravnest/graph/ir/archive/archive.h"
#include "ravnest/identity/identity.h"
#include "ravnest/plan/files/node_files.h"
#include "ravnest/plan/files/replacement.h"
#include "ravnest/plan/files/routing.h"

namespace ravnest::plan {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string cluster_folder(int cluster) { return text("cluster_", cluster); }

Status make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  return error ? unavailable("cannot make the folder ", folder.string(), ": ", error.message()) : Status();
}

void set_target(Json& routes, const std::string& direction, const Address* address) {
  routes[direction + "_target_host"] = address == nullptr ? Json() : Json(address->host);
  routes[direction + "_target_port"] = address == nullptr ? Json() : Json(address->port);
}

class Writer {
 public:
  Writer(const Plan& plan, const StagesOf& stages_of, const fs::path& node_data, const fs::path& folder)
      : plan_(plan), stages_of_(stages_of), node_data_(node_data), folder_(folder) {}

  Status run(const std::function<bool(double)>& progress) {
    const Result<identity::Authority> authority = identity::Authority::create(plan_.id);
    if (!authority.ok()) return authority.status();
    if (Status status = write_authority(*authority); !status.ok()) return status;
    if (Status status = make_folder(folder_ / "nodes"); !status.ok()) return status;
    for (std::size_t c = 0; c < plan_.clusters.size(); ++c) {
      if (Status status = write_cluster(static_cast<int>(c), *authority); !status.ok()) return status;
      if (progress && !progress(static_cast<double>(c + 1) / static_cast<double>(plan_.clusters.size())))
        return cancelled("writing the plan was interrupted; what was in ", node_data_.string(), " stays");
    }
    return write_file_atomically(folder_ / kPlanFile, encode_plan(plan_));
  }

 private:
  // Stays with the requester, for nodes that join later; `pack` leaves it out.
  Status write_authority(const identity::Authority& authority) const {
    const fs::path folder = folder_ / "authority";
    if (Status status = make_folder(folder); !status.ok()) return status;
    return identity::write_identity(folder, {authority.certificate(), authority.key()}, authority.certificate());
  }

  fs::path folder_of(int cluster, int stage) const {
    const int node = plan_.clusters[cluster].stages[stage].node;
    return folder_ / cluster_folder(cluster) / to_string(plan_.pool.nodes[node].address);
  }

  Status write_cluster(int cluster, const identity::Authority& authority) {
    const auto stages = static_cast<int>(plan_.clusters[cluster].stages.size());
    for (int s = 0; s < stages; ++s) {
      if (Status status = make_folder(folder_of(cluster, s)); !status.ok()) return status;
    }
    if (Status status = write_stages(cluster); !status.ok()) return status;
    for (int s = 0; s < stages; ++s) {
      const int node = plan_.clusters[cluster].stages[s].node;
      const Result<identity::Identity> identity = authority.issue(node_name(node));
      if (!identity.ok()) return identity.status();
      if (Status status = identity::write_identity(folder_of(cluster, s), *identity, authority.certificate());
          !status.ok())
        return status;
      const std::string content = encode_node(plan_, node, node_data_);
      if (Status status = write_file_atomically(folder_ / node_file(node_name(node)), content); !status.ok())
        return status;
    }
    return {};
  }

  // The archives and routes, or links to those of a cluster that is cut alike.
  Status write_stages(int cluster) {
    const auto [alike, is_first] = first_with_.try_emplace(plan_.cuts(cluster), cluster);
    if (!is_first && link_stages(alike->second, cluster)) return {};
    const Result<std::vector<ir::Model>> stages = stages_of_(cluster);
    if (!stages.ok()) return stages.status();
    if (stages->size() != plan_.clusters[cluster].stages.size())
      return internal("cluster ", cluster, " was cut into ", stages->size(), " stages");
    for (int s = 0; s < static_cast<int>(stages->size()); ++s) {
      const fs::path folder = folder_of(cluster, s);
      if (Status status = ir::write_archive((*stages)[s], folder / "submod.pt"); !status.ok()) return status;
      if (Status status = write_routing(*stages, s, folder); !status.ok()) return status;
    }
    return {};
  }

  bool link_stages(int from, int to) const {
    std::error_code error;
    for (int s = 0; s < static_cast<int>(plan_.clusters[from].stages.size()); ++s) {
      for (const auto& entry : fs::directory_iterator(folder_of(from, s), error)) {
        const std::string extension = entry.path().extension().string();
        if (extension != ".pt" && extension != ".pkl") continue;
        fs::create_hard_link(entry.path(), folder_of(to, s) / entry.path().filename(), error);
        if (error) return false;
      }
    }
    return !error;
  }

  const Plan& plan_;
  const StagesOf& stages_of_;
  const fs::path& node_data_;
  const fs::path& folder_;
  std::map<std::vector<int>, int> first_with_;  // cuts -> the first cluster that has them
};

}  // namespace

std::string encode_node(const Plan& plan, int node, const fs::path& node_data) {
  const auto [c, s] = plan.place_of(node);
  const PlannedCluster& cluster = plan.clusters[c];
  const PlannedStage& stage = cluster.stages[s];
  const int stages = static_cast<int>(cluster.stages.size());
  const PoolNode& own = plan.pool.nodes[node];
  const auto address_of = [&](int index) { return &plan.pool.nodes[cluster.stages[index].node].address; };
  Json json;
  json["node_id"] = node;
  json["local_host"] = own.address.host;
  json["local_port"] = own.address.port;
  if (own.bind) json["bind"] = to_string(*own.bind);
  json["template_path"] = (node_data / cluster_folder(c) / to_string(own.address)).string() + "/";
  json["rank"] = c;
  json["ring_size"] = plan.clusters.size();
  json["cluster_length"] = stages;
  Json owners = Json::object();
  for (const NextOwner& owner : stage.next_owners)
    owners[to_string(plan.pool.nodes[owner.node].address)] = owner.first_parameter;
  json["param_addresses"] = Json::array({owners});
  json["ring_ids"] = Json::object();
  for (const RingPart& part : stage.rings) json["ring_ids"][std::to_string(part.ring)] = part.first_parameter;
  set_target(json, "forward", s + 1 < stages ? address_of(s + 1) : nullptr);
  set_target(json, "backward", s > 0 ? address_of(s - 1) : nullptr);
  json["node_type"] = role(s, stages);
  return json.dump(2) + "\n";
}

Status write_plan(const Plan& plan, const StagesOf& stages_of, const fs::path& node_data,
                  const std::function<bool(double)>& progress) {
  Result<Replacement> replacement = Replacement::begin(node_data);
  if (!replacement.ok()) return replacement.status();
  const fs::path folder = replacement->folder();
  if (Status status = Writer(plan, stages_of, node_data, folder).run(progress); !status.ok()) return status;
  return replacement->commit();
}

Result<Plan> read_plan(const fs::path& node_data) {
  if (Status status = finish_replacement(node_data); !status.ok()) return status;
  const fs::path file = node_data / kPlanFile;
  const Result<std::string> content = read_file(file);
  if (!content.ok()) {
    if (content.status().code() != Code::kNotFound) return content.status();
    return not_found("there is no plan in ", node_data.string(),
                     "; make one with clusterize or `ravnest plan MODEL.pt2`");
  }
  return decode_plan(*content, file.string());
}

}  // namespace ravnest::plan
