// How a node gets into its cluster.
#include <set>
#include <utility>

#include "ravnest/doctor/caller.h"
#include "ravnest/graph/ir/archive/archive.h"
#include "ravnest/graph/ir/real.h"
#include "ravnest/graph/ir/replace.h"
#include "ravnest/graph/run/block_allocator.h"
#include "ravnest/identity/identity.h"
#include "ravnest/plan/peers.h"
#include "ravnest/stage/routes.h"
#include "ravnest/train/node/device.h"
#include "ravnest/train/node/farewell.h"
#include "ravnest/train/node/node.h"
#include "ravnest/transport/tcp/endpoint.h"

namespace ravnest::train {
namespace {

namespace tcp = transport::tcp;

Result<tcp::Options> network_options(const NodeOptions& options, const plan::PlanHere& here, int node) {
  tcp::Options network;
  network.name = plan::node_name(node);
  network.plan = here.plan.id;
  network.software = options.software;
  network.listen = plan::listens_at(here.plan, node);
  for (const int peer : plan::peers_of(here.plan, node)) network.peers.push_back(doctor::peer(here.plan, peer));
  network.log = options.log;
  if (options.insecure) {
    network.insecure = tcp::Insecure::kOnLoopback;
    return network;
  }
  auto identity = identity::read_identity(plan::folder_of(here, node));
  if (!identity.ok()) {
    return identity.status().with_context(
        text("the identity of ", network.name, " is not here: plan on this machine, or unpack its package here"));
  }
  network.identity = std::move(*identity);
  return network;
}

// The archive is the one that the plan speaks of.
Status check_stage(const graph::Engine& engine, const plan::Plan& plan, int cluster, int stage,
                   const std::filesystem::path& archive) {
  const ir::StageInfo info = worker::stage_of(engine);
  const auto& stages = plan.clusters[static_cast<std::size_t>(cluster)].stages;
  const plan::PlannedStage& planned = stages[static_cast<std::size_t>(stage)];
  std::int64_t trainable = 0;
  std::set<const void*> counted;  // a tensor with several names is one
  for (const auto& [name, parameter] : engine.parameters()) {
    const auto tied = info.tied.find(name);
    const bool kept_elsewhere = tied != info.tied.end() && tied->second.front() != stage;
    if (!parameter.requires_grad() || kept_elsewhere || !counted.insert(parameter.unsafeGetTensorImpl()).second)
      continue;
    trainable += parameter.numel();
  }
  if (info.index == stage && info.count == static_cast<int>(stages.size()) && trainable == planned.trainable) return {};
  return invalid(archive.string(), " is stage ", info.index, " of ", info.count, " with ", trainable,
                 " trainable elements, but the plan has stage ", stage, " of ", stages.size(), " with ",
                 planned.trainable,
                 " here: it belongs to another plan or model. Run clusterize again, or unpack this "
                 "node's package again");
}

Result<graph::Engine> engine_in_place_of(const std::filesystem::path& planned, const std::filesystem::path& own,
                                         c10::Device device) {
  const auto place = ir::read_archive(planned);
  if (!place.ok()) return place.status();
  auto given = ir::read_archive(own);
  if (!given.ok()) return given.status();
  if (Status real = ir::check_real(*given); !real.ok()) return real;
  auto stage = ir::replaced_stage(*place, std::move(*given));
  if (!stage.ok()) return stage.status();
  return graph::Engine::create(std::move(*stage), device);
}

Result<graph::Engine> load_stage(const std::filesystem::path& archive, const std::filesystem::path& own,
                                 c10::Device device) {
  if (Status there = check_device(device); !there.ok()) return there;
  try {
    return own.empty() ? graph::Engine::load(archive, device) : engine_in_place_of(archive, own, device);
  } catch (const c10::Error& error) {
    return unavailable("cannot load ", archive.string(), " to the device ", device.str(), ": ",
                       error.what_without_backtrace());
  }
}

Result<graph::Engine> open_stage(const NodeOptions& options, const plan::PlanHere& here, int node) {
  if (!options.custom_stage.empty() && here.plan.clusters.size() > 1)
    return invalid(
        "a model of your own (Node(model=...)) cannot be averaged with other clusters; "
        "plan with one cluster, or leave model= out");
  const std::filesystem::path archive = plan::folder_of(here, node) / "submod.pt";
  auto engine = load_stage(archive, options.custom_stage, options.device);
  if (!engine.ok() || !options.custom_stage.empty()) return engine;
  const auto [cluster, stage] = here.plan.place_of(node);
  if (Status fits = check_stage(*engine, here.plan, cluster, stage, archive); !fits.ok()) return fits;
  return engine;
}

// Of a cluster, by stage.
std::vector<std::string> nodes_of(const plan::Plan& plan, int cluster) {
  std::vector<std::string> names;
  for (const plan::PlannedStage& each : plan.clusters[static_cast<std::size_t>(cluster)].stages)
    names.push_back(plan::node_name(each.node));
  return names;
}

}  // namespace

Node::Node(NodeOptions options, plan::Plan plan, graph::Engine engine)
    : options_(std::move(options)),
      plan_(std::move(plan)),
      engine_(std::move(engine)),
      place_(stage::stage_options(worker::stage_of(engine_))) {}

Result<std::unique_ptr<Node>> Node::open(NodeOptions options) {
  auto here = plan::read_plan_here(options.node_data);
  if (!here.ok()) return here.status();
  const auto number = plan::node_named(here->plan, options.name);
  if (!number.ok()) return number.status();
  options.name = plan::node_name(*number);
  const auto [cluster, stage] = here->plan.place_of(*number);
  auto network = network_options(options, *here, *number);
  if (!network.ok()) return network.status();
  const std::vector<std::string> nodes = nodes_of(here->plan, cluster);
  Background* const background = options.background.get();
  if (background != nullptr) background->finish(options.name);  // an attempt before this one has the address
  // First of all: whatever fails from here on is said through this.
  Joined joined = join_network(*network, plan::folder_of(*here, *number));
  if (!joined.endpoint.ok()) {
    if (joined.elsewhere)
      tell_why(background, std::move(joined.elsewhere), nodes, stage,
               Farewell{text("failed: ", joined.endpoint.status().message())});
    return joined.endpoint.status();
  }
  if (options.device.is_cpu()) graph::keep_large_blocks();
  auto engine = open_stage(options, *here, *number);
  if (!engine.ok()) {
    tell_why(background, std::move(*joined.endpoint), nodes, stage,
             Farewell{text("failed: ", engine.status().message())});
    return engine.status();
  }
  std::unique_ptr<Node> node(new Node(std::move(options), std::move(here->plan), std::move(*engine)));
  node->cluster_ = cluster;
  node->stage_ = stage;
  node->nodes_ = nodes;
  node->folder_ = std::move(joined.folder);
  node->endpoint_ = std::move(*joined.endpoint);
  return node;
}

Status Node::withdraw(const NodeOptions& options, const Farewell& farewell) {
  const auto here = plan::read_plan_here(options.node_data);
  if (!here.ok()) return here.status();
  const auto number = plan::node_named(here->plan, options.name);
  if (!number.ok()) return number.status();
  auto network = network_options(options, *here, *number);
  if (!network.ok()) return network.status();
  const auto [cluster, stage] = here->plan.place_of(*number);
  network->log = Logger(network->name, Level::kOff);
  Joined joined = join_network(*network, plan::folder_of(*here, *number));
  auto endpoint = joined.endpoint.ok() ? std::move(*joined.endpoint) : std::move(joined.elsewhere);
  if (!endpoint) return joined.endpoint.status();
  tell_why(options.background.get(), std::move(endpoint), nodes_of(here->plan, cluster), stage, farewell);
  return {};
}

}  // namespace ravnest::train
