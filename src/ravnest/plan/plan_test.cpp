#include "ravnest/plan/plan.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "ravnest/plan/files/write.h"
#include "ravnest/plan/rings.h"
#include "ravnest/plan/sane.h"
#include "ravnest/plan/show/explain.h"
#include "ravnest/plan/testing/sample_costs.h"

namespace ravnest::plan {
namespace {

using testing::HasSubstr;

Plan planned(const ModelCosts& costs, const Pool& pool, const FormOptions& options = {}) {
  const Result<Formation> formed = form_clusters(costs, pool, options);
  EXPECT_TRUE(formed.ok()) << formed.status();
  return complete_plan(costs, pool, *formed, options);
}

TEST(Plan, TheFixedExamplePrintsItsBlocks) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    FormOptions options;
    options.seed = seed;
    EXPECT_EQ(node_blocks(planned(digits(), equal_pool(3, 8, 10), options)),
              "Node(0, Cluster(0)) \n"
              "self.IP(0.0.0.0:8080) \n"
              "Ring IDs({0: 'L__self___conv2d_1.weight'}) \n"
              "Address2Param({'0.0.0.0:8080': 'L__self___conv2d_1.weight'})\n"
              "\n\n"
              "Node(1, Cluster(0)) \n"
              "self.IP(0.0.0.0:8081) \n"
              "Ring IDs({1: 'L__self___dense_1.weight'}) \n"
              "Address2Param({'0.0.0.0:8081': 'L__self___dense_1.weight'})\n"
              "\n\n"
              "Node(2, Cluster(0)) \n"
              "self.IP(0.0.0.0:8082) \n"
              "Ring IDs({2: 'L__self___bn_3.weight'}) \n"
              "Address2Param({'0.0.0.0:8082': 'L__self___bn_3.weight'})");
  }
}

TEST(Plan, ThreeUnequalNodesWithoutComputeAreOneCluster) {
  Pool pool;
  pool.nodes = {machine(128, 20, 8080), machine(128, 20, 8081), machine(64, 40, 8082)};
  const Plan plan = planned(digits(), pool);
  ASSERT_EQ(plan.clusters.size(), 1U);
  EXPECT_EQ(plan.clusters[0].stages.size(), 3U);
  EXPECT_EQ(plan.clusters[0].stages[0].node, 0);
  EXPECT_EQ(plan.clusters[0].stages[2].node, 2);
}

TEST(Plan, AParameterLabelIsTheModulesPathAndTheOwnName) {
  EXPECT_EQ(parameter_label("conv2d_1.weight"), "L__self___conv2d_1.weight");
  EXPECT_EQ(parameter_label("encoder.layers.0.fc.bias"), "L__self___encoder_layers_0_fc.bias");
}

TEST(Plan, JsonKeepsAllOfIt) {
  Pool pool = equal_pool(7, 8, 10);
  for (PoolNode& node : pool.nodes) node.compute_gflops = 100;
  pool.nodes[2].label = "attic";
  pool.nodes[3].bind = Address{"0.0.0.0", 9999};
  FormOptions options;
  options.seed = 5;
  Plan plan = planned(digits(), pool, options);
  plan.notes.push_back("a note");
  const std::string json = encode_plan(plan);
  const Result<Plan> read = decode_plan(json, "plan.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(encode_plan(*read), json);
  EXPECT_EQ(node_blocks(*read), node_blocks(plan));
  EXPECT_EQ(explain(*read), explain(plan));
}

TEST(Plan, AChangedOrTruncatedJsonIsRefusedOrStillAPlan) {
  const std::string json = encode_plan(planned(digits(), equal_pool(5, 8, 10)));
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string broken = json;
    if (round % 3 == 0) {
      broken.resize(random() % json.size());
    } else {
      for (unsigned i = 0; i < 1 + random() % 3; ++i) broken[random() % broken.size()] = "0{}[],:\"-9a"[random() % 11];
    }
    const Result<Plan> read = decode_plan(broken, "plan.json");
    if (read.ok()) {
      EXPECT_FALSE(explain(*read).empty());
    } else {
      EXPECT_THAT(read.status().message(), HasSubstr("plan.json"));
    }
  }
}

TEST(Plan, NumbersBeyondAllMachinesAreRefusedBeforeAnythingIsReckoned) {
  const auto refusal = [](const std::function<void(FormOptions&)>& change) {
    FormOptions options;
    change(options);
    return form_clusters(digits(), equal_pool(3, 8, 10), options).status();
  };
  const std::vector<std::pair<Status, std::string>> cases = {
      {refusal([](FormOptions& options) { options.training.optimizer_state = 1e30; }),
       "the optimizer's state must be from 0 to 100 bytes per byte of weights, not 1e+30"},
      {refusal([](FormOptions& options) { options.training.optimizer_state = NAN; }), "bytes per byte of weights, not"},
      {refusal([](FormOptions& options) { options.training.updates_per_round = 0; }), "must be from 1 to 1000000000"},
      {refusal([](FormOptions& options) { options.training.sent_share = INFINITY; }), "bytes per byte"},
      {refusal([](FormOptions& options) { options.min_cluster_size = 0; }), "min_cluster_size must be from 1 to"},
      {refusal([](FormOptions& options) { options.min_cluster_size = 50; }),
       "a cluster must have at least 50 nodes (min_cluster_size), but the pool has 3"}};
  for (const auto& [status, words] : cases) {
    EXPECT_EQ(status.code(), Code::kInvalid) << words;
    EXPECT_THAT(status.message(), HasSubstr(words));
  }
}

TEST(Plan, AModelWhoseBytesOverflowIsRefused) {
  ModelCosts huge = chain({{100, 1, 4}, {100, 1, 4}, {100, 1, 4}});
  huge.operators[1].saved_bytes = INT64_MAX / 3;
  const Status status = form_clusters(huge, equal_pool(3, 8, 10), {}).status();
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_THAT(status.message(), HasSubstr("the sizes of the model's tensors make no sense"));
}

TEST(Plan, APlanWithImpossibleFiguresIsNeitherWrittenNorRead) {
  const Plan good = planned(digits(), equal_pool(3, 8, 10));
  EXPECT_TRUE(check_figures(good).ok());
  const auto refused = [&](const std::function<void(Plan&)>& change) {
    Plan bad = good;
    change(bad);
    EXPECT_EQ(check_figures(bad).code(), Code::kInternal);
    EXPECT_EQ(decode_plan(encode_plan(bad), "plan.json").status().code(), Code::kCorrupt);
  };
  refused([](Plan& plan) { plan.clusters[0].stages[1].memory.optimizer = INT64_MIN; });
  refused([](Plan& plan) { plan.clusters[0].stages[1].memory.weights = 5'000'000'000'000'000'000; });
  refused([](Plan& plan) { plan.clusters[0].stages[1].prediction.send_s = NAN; });
  refused([](Plan& plan) { plan.clusters[0].period_s = INFINITY; });
  refused([](Plan& plan) { plan.memory_bytes = -1; });
  refused([](Plan& plan) { plan.samples_per_s = -1; });
}

TEST(Plan, ALaterVersionIsRefused) {
  std::string json = encode_plan(planned(digits(), equal_pool(3, 8, 10)));
  json.replace(json.find("\"version\": 1"), 12, "\"version\": 2");
  EXPECT_EQ(decode_plan(json, "plan.json").status().code(), Code::kUnsupported);
}

TEST(Plan, MoreNodesThanStagesLeaveSomeUnusedAndNamed) {
  const ModelCosts two_stages = chain({{100, 1, 4}, {100, 1, 4}});
  const Plan plan = planned(two_stages, equal_pool(5, 8, 10));
  EXPECT_EQ(plan.clusters.size(), 2U);
  EXPECT_THAT(plan.unused, testing::ElementsAre(4));
  EXPECT_THAT(explain(plan), HasSubstr("node_4 (0.0.0.0:8084) is not used"));
}

TEST(Plan, AModelThatCannotBeCutNeedsClustersOfOne) {
  const ModelCosts one = chain({{100, 1, 4}, {0, 1, 4}});
  const Status refused = form_clusters(one, equal_pool(2, 8, 10), {}).status();
  EXPECT_EQ(refused.code(), Code::kInvalid);
  EXPECT_THAT(refused.message(), HasSubstr("min_cluster_size"));
  FormOptions options;
  options.min_cluster_size = 1;
  const Plan plan = planned(one, equal_pool(2, 8, 10), options);
  EXPECT_EQ(plan.clusters.size(), 2U);
}

TEST(Plan, APoolOfOneIsSolo) {
  const Plan plan = planned(digits(), equal_pool(1, 8, 10));
  ASSERT_EQ(plan.clusters.size(), 1U);
  EXPECT_EQ(role(0, 1), "solo");
  EXPECT_THAT(encode_node(plan, 0, "node_data"), HasSubstr("\"node_type\": \"solo\""));
}

TEST(Plan, TooLittleRamIsAnErrorWithBothNumbersAndHelp) {
  const ModelCosts costs = chain(std::vector<Layer>(6, {1'000'000, 1, 1'000'000}));
  const Status pool = form_clusters(costs, equal_pool(2, 0.01, 10), {}).status();
  EXPECT_EQ(pool.message(),
            "the pool's 2 nodes have 20.0 MB of RAM in all, but training this model takes 108 MB; a smaller batch in "
            "example_args, more nodes, or nodes with more RAM would help");
  Pool uneven = equal_pool(2, 10, 10);
  uneven.nodes[1].ram_gb = 0.001;
  const Status node = form_clusters(costs, uneven, {}).status();
  EXPECT_THAT(node.message(), HasSubstr("node_1 (0.0.0.0:8081) has 1.00 MB of RAM, but the smallest stage"));
}

TEST(Plan, TimeCuttingOnFourTwoOneBeatsEqualShares) {
  const ModelCosts costs = chain(std::vector<Layer>(48, {100'000, 1e9, 4}));
  Pool pool = equal_pool(3, 8, 1000);
  const std::vector<double> gflops = {400, 200, 100};
  for (int i = 0; i < 3; ++i) pool.nodes[i].compute_gflops = gflops[i];
  FormOptions equal;
  equal.balance = Balance::kParams;
  EXPECT_GE(planned(costs, pool).samples_per_s, 1.5 * planned(costs, pool, equal).samples_per_s);
}

TEST(Plan, ANodeThatHoldsBackThePoolIsASpareInAllThatIsShownAndKept) {
  const ModelCosts costs = chain(std::vector<Layer>(12, {1000, 1e9, 100'000}));
  Pool pool = equal_pool(5, 8, 1000);
  for (PoolNode& node : pool.nodes) node.compute_gflops = 100;
  EXPECT_THAT(planned(costs, pool).notes, testing::IsEmpty());
  pool.nodes[3].bandwidth_mbps = 0.1;
  const Plan plan = planned(costs, pool);
  EXPECT_THAT(plan.notes, testing::Contains(HasSubstr("node_3 (0.0.0.0:8083) is a spare: without it")));
  EXPECT_THAT(explain(plan), HasSubstr("node_3 (0.0.0.0:8083) is a spare.\n"));
  const Plan read = decode_plan(encode_plan(plan), "plan.json").value();
  EXPECT_THAT(read.spares, testing::ElementsAre(3));
  EXPECT_THAT(read.unused, testing::ElementsAre(3));
  FormOptions all;
  all.use_all = true;
  EXPECT_THAT(planned(costs, pool, all).notes,
              testing::Contains(HasSubstr("without node_3 (0.0.0.0:8083) the pool would train ")));
}

class Rings : public testing::Test {
 protected:
  // Random unequal clusters of a random model, as cuts.
  std::pair<ModelCosts, std::vector<std::vector<int>>> random_clusters() {
    const int operators = 6 + static_cast<int>(random_() % 20);
    std::vector<Layer> layers;
    for (int i = 0; i < operators; ++i) layers.push_back({static_cast<std::int64_t>(random_() % 4 * 10), 1, 4});
    layers.front().parameters = 10;
    ModelCosts costs = chain(layers);
    costs.stored.front().used_at.push_back(operators - 1);  // a tied weight
    if (costs.stored.size() > 2) costs.stored[2].trainable = false;
    std::vector<std::vector<int>> cuts;
    for (unsigned c = 0; c < 1 + random_() % 4; ++c) {
      std::vector<int> positions;
      for (int p = 1; p < operators; ++p) {
        if (random_() % 4 == 0) positions.push_back(p);
      }
      cuts.push_back(positions);
    }
    return {costs, cuts};
  }

  std::mt19937 random_{17};
};

TEST_F(Rings, EveryParameterOfEveryClusterIsInExactlyOneRingAndMembersOwnAllOfIt) {
  for (int round = 0; round < 500; ++round) {
    const auto [costs, cuts] = random_clusters();
    const auto rings = form_rings(costs, cuts);
    const int trainable = static_cast<int>(trainable_parameters(costs).size());
    std::map<int, std::pair<int, int>> extent;  // of each ring, in the longest cluster
    for (std::size_t c = 0; c < rings.size(); ++c) {
      std::vector<int> ring_of(trainable, -1);
      for (const StageRings& stage : rings[c]) {
        for (const RingShare& share : stage.shares) {
          for (int p = share.run.first; p < share.run.end; ++p) {
            EXPECT_EQ(ring_of[p], -1);
            ring_of[p] = share.ring;
            EXPECT_GE(p, stage.owned.first);
            EXPECT_LT(p, stage.owned.end);
          }
        }
      }
      for (int p = 0; p < trainable; ++p) {
        EXPECT_NE(ring_of[p], -1) << "cluster " << c << " leaves parameter " << p << " out";
        const auto [known, is_new] = extent.try_emplace(p, std::pair(ring_of[p], 0));
        EXPECT_EQ(known->second.first, ring_of[p]) << "clusters disagree on the ring of parameter " << p;
      }
    }
    std::size_t longest = 0;
    for (const auto& each : rings) longest = std::max(longest, each.size());
    for (const auto& [parameter, ring] : extent) EXPECT_LT(ring.first, static_cast<int>(longest));
  }
}

TEST_F(Rings, NeighboursInTheNextClusterTogetherOwnWhatAStageOwns) {
  for (int round = 0; round < 500; ++round) {
    const auto [costs, cuts] = random_clusters();
    const auto rings = form_rings(costs, cuts);
    for (std::size_t c = 0; c < rings.size(); ++c) {
      const auto& next = rings[(c + 1) % rings.size()];
      for (const StageRings& stage : rings[c]) {
        int covered = stage.owned.first;
        for (const Neighbour& neighbour : stage.neighbours) {
          EXPECT_EQ(neighbour.run.first, covered);
          EXPECT_GE(neighbour.run.first, next[neighbour.stage].owned.first);
          EXPECT_LE(neighbour.run.end, next[neighbour.stage].owned.end);
          covered = neighbour.run.end;
        }
        EXPECT_EQ(covered, std::max(stage.owned.first, stage.owned.end));
      }
    }
  }
}

TEST_F(Rings, NodeFilesSayTheSameAsThePlan) {
  Pool pool = equal_pool(5, 8, 10);
  const Plan plan = planned(digits(), pool);
  for (int node = 0; node < 5; ++node) {
    const auto [c, s] = plan.place_of(node);
    const PlannedStage& stage = plan.clusters[c].stages[s];
    const auto json = nlohmann::json::parse(encode_node(plan, node, "node_data"));
    EXPECT_EQ(json["rank"], c);
    EXPECT_EQ(json["ring_size"], plan.clusters.size());
    EXPECT_EQ(json["cluster_length"], plan.clusters[c].stages.size());
    EXPECT_EQ(json["template_path"], text("node_data/cluster_", c, "/", pool.nodes[node].address, "/"));
    EXPECT_EQ(json["ring_ids"].size(), stage.rings.size());
    for (const RingPart& part : stage.rings) EXPECT_EQ(json["ring_ids"][text(part.ring)], part.first_parameter);
    ASSERT_EQ(json["param_addresses"].size(), 1U);
    for (const NextOwner& owner : stage.next_owners) {
      EXPECT_EQ(json["param_addresses"][0][text(pool.nodes[owner.node].address)], owner.first_parameter);
      EXPECT_EQ(plan.place_of(owner.node).first, (c + 1) % static_cast<int>(plan.clusters.size()));
    }
    const bool last = s + 1 == static_cast<int>(plan.clusters[c].stages.size());
    EXPECT_EQ(json["forward_target_host"].is_null(), last);
    EXPECT_EQ(json["backward_target_port"].is_null(), s == 0);
  }
}

}  // namespace
}  // namespace ravnest::plan
