// plan.json, both ways. Optional figures are left out where they are unknown; unknown keys are ignored.
#include <nlohmann/json.hpp>
#include <set>

#include "ravnest/base/json.h"
#include "ravnest/base/json_field.h"
#include "ravnest/plan/plan.h"
#include "ravnest/plan/pool/range.h"
#include "ravnest/plan/sane.h"

namespace ravnest::plan {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

Json encode(const PoolNode& node) {
  Json json{{"IP", to_string(node.address)}};
  if (!node.label.empty()) json["name"] = node.label;
  if (node.bind) json["bind"] = to_string(*node.bind);
  Json& benchmarks = json["benchmarks"];
  benchmarks["ram"] = node.ram_gb;
  benchmarks["bandwidth"] = node.bandwidth_mbps;
  if (node.process_gb) benchmarks["process"] = *node.process_gb;
  if (node.compute_gflops) benchmarks["compute"] = *node.compute_gflops;
  if (node.latency_ms) benchmarks["latency"] = *node.latency_ms;
  if (node.reliability) benchmarks["reliability"] = *node.reliability;
  return json;
}

Json encode(const StageMemory& memory) {
  return {{"weights", memory.weights},   {"gradients", memory.gradients},     {"optimizer", memory.optimizer},
          {"versions", memory.versions}, {"activations", memory.activations}, {"process", memory.process},
          {"total", memory.total()}};
}

Json encode(const StagePrediction& prediction) {
  return {{"compute_s", prediction.compute_s},
          {"send_s", prediction.send_s},
          {"receive_s", prediction.receive_s},
          {"averaging_bytes", prediction.averaging_bytes},
          {"bytes_out", prediction.bytes_out},
          {"bytes_in", prediction.bytes_in},
          {"out_bytes_per_s", prediction.out_bytes_per_s},
          {"in_bytes_per_s", prediction.in_bytes_per_s},
          {"versions", prediction.versions},
          {"staleness", prediction.staleness}};
}

Json encode(const PlannedStage& stage, std::string_view role) {
  Json json{{"node", stage.node},
            {"role", role},
            {"operators", {stage.begin, stage.end}},
            {"first_operator", stage.first_operator},
            {"module", stage.module},
            {"parameters", stage.parameters},
            {"trainable", stage.trainable},
            {"memory_bytes", encode(stage.memory)},
            {"predicted", encode(stage.prediction)}};
  json["rings"] = Json::array();
  for (const RingPart& part : stage.rings)
    json["rings"].push_back(
        {{"ring", part.ring}, {"first_parameter", part.first_parameter}, {"elements", part.elements}});
  json["next_owners"] = Json::array();
  for (const NextOwner& owner : stage.next_owners)
    json["next_owners"].push_back({{"node", owner.node}, {"first_parameter", owner.first_parameter}});
  return json;
}

class PlanDecoder {
 public:
  explicit PlanDecoder(const Field& root) : root_(root) {}

  Plan run() {
    const std::int64_t version = root_["version"].integer();
    if (version != kVersion)
      root_["version"].refuse(text("this is a plan of version ", version, "; this ravnest reads version ", kVersion));
    plan_.id = root_["id"].string();
    plan_.seed = static_cast<std::uint64_t>(root_["seed"].integer());
    plan_.batch = root_["batch"].integer();
    plan_.memory_bytes = root_["memory_bytes"].integer();
    if (plan_.batch < 1) root_["batch"].fail("expected at least 1");
    plan_.operators = small(root_["operators"]);
    plan_.training.optimizer_state = within(kOptimizerState, root_["optimizer_state"]);
    plan_.training.updates_per_round = static_cast<int>(within(kUpdatesPerRound, root_["updates_per_round"]));
    plan_.training.sent_share = within({1e-6, 2, ""}, root_["sent_share"]);
    plan_.samples_per_s = root_["samples_per_s"].number();
    const Result<Balance> balance = parse_balance(root_["balance"].string());
    if (!balance.ok()) root_["balance"].fail(balance.status().message());
    plan_.balance = *balance;
    const Result<Pool> pool = decode_pool(root_["pool"].json().dump(), root_["pool"].where());
    if (!pool.ok()) throw DecodeError{corrupt(pool.status().message())};
    plan_.pool = *pool;
    plan_.pool.notes.clear();
    root_["notes"].for_each([&](const Field& note) { plan_.notes.push_back(note.string()); });
    root_["unused"].for_each([&](const Field& unused) { plan_.unused.push_back(node(unused)); });
    if (const auto spares = root_.optional("spares"))
      spares->for_each([&](const Field& spare) { plan_.spares.push_back(node(spare)); });
    root_["clusters"].for_each([&](const Field& cluster) { add(cluster); });
    plan_.training.clusters = static_cast<int>(plan_.clusters.size());
    if (plan_.clusters.empty()) root_["clusters"].fail("a plan has at least one cluster");
    if (const Status status = check_figures(plan_); !status.ok()) root_.fail(status.message());
    return std::move(plan_);
  }

 private:
  static double within(const NumberRange& range, const Field& field) {
    const double value = field.number();
    if (!range.has(value)) field.fail(text("expected a number ", words(range)));
    return value;
  }

  static int small(const Field& field) {
    const std::int64_t value = field.integer();
    if (value < 0 || value > 1'000'000'000) field.fail("expected a whole number that is not negative");
    return static_cast<int>(value);
  }

  int node(const Field& field) const {
    const int value = small(field);
    if (value >= static_cast<int>(plan_.pool.nodes.size())) field.fail("the pool has no such node");
    return value;
  }

  void add(const Field& field) {
    PlannedCluster cluster;
    cluster.round_trip_s = field["round_trip_s"].number();
    cluster.period_s = field["period_s"].number();
    cluster.samples_per_s = field["samples_per_s"].number();
    cluster.window = small(field["window"]);
    cluster.slowest_stage = small(field["slowest_stage"]);
    cluster.limit = limit(field["limit"]);
    field["stages"].for_each([&](const Field& each) {
      cluster.stages.push_back(stage(each));
      PlannedStage& made = cluster.stages.back();
      const int expected = cluster.stages.size() == 1 ? 0 : cluster.stages[cluster.stages.size() - 2].end;
      if (made.begin != expected || made.end <= made.begin) each["operators"].fail("the stages are not one chain");
    });
    if (cluster.stages.empty() || cluster.stages.back().end != plan_.operators)
      field["stages"].fail("the stages do not make up the model");
    if (cluster.slowest_stage >= static_cast<int>(cluster.stages.size()))
      field["slowest_stage"].fail("the cluster has no such stage");
    plan_.clusters.push_back(std::move(cluster));
  }

  static Limit limit(const Field& field) {
    for (const Limit each : {Limit::kCompute, Limit::kSend, Limit::kReceive, Limit::kRoundTrip}) {
      if (field.string() == name(each)) return each;
    }
    field.fail("not a known limit");
  }

  PlannedStage stage(const Field& field) {
    PlannedStage stage;
    stage.node = node(field["node"]);
    if (!placed_.insert(stage.node).second) field["node"].fail("the node has another stage already");
    const Field operators = field["operators"];
    std::vector<int> bounds;
    operators.for_each([&](const Field& bound) { bounds.push_back(small(bound)); });
    if (bounds.size() != 2) operators.fail("expected [begin, end]");
    stage.begin = bounds[0];
    stage.end = bounds[1];
    stage.first_operator = field["first_operator"].string();
    stage.module = field["module"].string();
    stage.parameters = field["parameters"].integer();
    stage.trainable = field["trainable"].integer();
    const Field memory = field["memory_bytes"];
    stage.memory = {memory["weights"].integer(), memory["gradients"].integer(), memory["optimizer"].integer(),
                    memory["versions"].integer(), memory["activations"].integer()};
    if (const auto process = memory.optional("process")) stage.memory.process = process->integer();
    const Field predicted = field["predicted"];
    stage.prediction.compute_s = predicted["compute_s"].number();
    stage.prediction.send_s = predicted["send_s"].number();
    stage.prediction.receive_s = predicted["receive_s"].number();
    stage.prediction.averaging_bytes = predicted["averaging_bytes"].number();
    stage.prediction.bytes_out = predicted["bytes_out"].integer();
    stage.prediction.bytes_in = predicted["bytes_in"].integer();
    stage.prediction.out_bytes_per_s = predicted["out_bytes_per_s"].number();
    stage.prediction.in_bytes_per_s = predicted["in_bytes_per_s"].number();
    stage.prediction.versions = small(predicted["versions"]);
    stage.prediction.staleness = small(predicted["staleness"]);
    field["rings"].for_each([&](const Field& part) {
      stage.rings.push_back({small(part["ring"]), part["first_parameter"].string(), part["elements"].integer()});
    });
    field["next_owners"].for_each([&](const Field& owner) {
      stage.next_owners.push_back({node(owner["node"]), owner["first_parameter"].string()});
    });
    return stage;
  }

  const Field& root_;
  Plan plan_;
  std::set<int> placed_;
};

}  // namespace

std::string encode_plan(const Plan& plan) {
  Json json{{"version", kVersion},
            {"id", plan.id},
            {"seed", static_cast<std::int64_t>(plan.seed)},
            {"balance", name(plan.balance)},
            {"batch", plan.batch},
            {"memory_bytes", plan.memory_bytes},
            {"operators", plan.operators},
            {"optimizer_state", plan.training.optimizer_state},
            {"updates_per_round", plan.training.updates_per_round},
            {"sent_share", plan.training.sent_share},
            {"samples_per_s", plan.samples_per_s}};
  json["clusters"] = Json::array();
  for (const PlannedCluster& cluster : plan.clusters) {
    Json made{{"round_trip_s", cluster.round_trip_s},   {"period_s", cluster.period_s},
              {"samples_per_s", cluster.samples_per_s}, {"window", cluster.window},
              {"slowest_stage", cluster.slowest_stage}, {"limit", name(cluster.limit)}};
    made["stages"] = Json::array();
    const int stages = static_cast<int>(cluster.stages.size());
    for (int s = 0; s < stages; ++s) made["stages"].push_back(encode(cluster.stages[s], role(s, stages)));
    json["clusters"].push_back(std::move(made));
  }
  json["unused"] = plan.unused;
  json["spares"] = plan.spares;
  json["notes"] = plan.notes;
  for (std::size_t node = 0; node < plan.pool.nodes.size(); ++node)
    json["pool"][std::to_string(node)] = encode(plan.pool.nodes[node]);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Plan> decode_plan(std::string_view json, std::string_view what) {
  const Result<nlohmann::json> parsed = parse_json(json, what);
  if (!parsed.ok()) return parsed.status();
  try {
    const Field root(*parsed, std::string(what));
    return PlanDecoder(root).run();
  } catch (const DecodeError& error) {
    return error.status;
  }
}

}  // namespace ravnest::plan
