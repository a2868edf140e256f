#include "ravnest/plan/clusterize/clusterize.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "ravnest/base/testing/folders.h"
#include "ravnest/graph/ir/archive/archive.h"
#include "ravnest/graph/ir/testing/models.h"
#include "ravnest/graph/run/engine.h"
#include "ravnest/plan/files/local_plan.h"
#include "ravnest/plan/files/write.h"

namespace ravnest::plan {
namespace {

using graph::Engine;
using graph::Mode;
using ir::testing::golden;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

ir::Model model_of(const char* name) { return ir::read_archive(golden(name)).value(); }

// An empty node_data with a pool file of two nodes.
class Clusterize : public ::testing::Test {
 protected:
  Clusterize() { write_pool(8); }

  void write_pool(double ram_gb) const {
    std::string pool = "{";
    for (const char* node : {"0", "1"}) {
      pool += text(pool.size() > 1 ? ", " : "", "\"", node, R"(": {"IP": "127.0.0.1:808)", node,
                   R"(", "benchmarks": {"ram": )", ram_gb, R"(, "bandwidth": 100}})");
    }
    test::write(node_data() / "node_configs.json", pool + "}");
  }

  const std::filesystem::path& node_data() const { return folder_.path(); }

  Result<Plan> plan(const ir::Model& model, const FormOptions& form = {}) const {
    ClusterizeOptions options;
    options.form = form;
    options.node_data = node_data();
    return clusterize(model, graph::profile_shapes(model).value(), options);
  }

  // What it says where it fails. Nothing may have changed.
  std::string refusal(const ir::Model& model, const FormOptions& form = {}) const {
    const auto before = test::contents_of(node_data());
    const Result<Plan> made = plan(model, form);
    EXPECT_FALSE(made.ok());
    EXPECT_EQ(test::contents_of(node_data()), before);
    return made.status().message();
  }

  std::vector<Engine> stages() const {
    const PlanHere here = read_plan_here(node_data()).value();
    std::vector<Engine> engines;
    for (const PlannedStage& stage : here.plan.clusters.at(0).stages)
      engines.push_back(Engine::load(folder_of(here, stage.node) / "submod.pt").value());
    return engines;
  }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(Clusterize, ThePlanOnDiskIsTheOneThatWasMade) {
  const Result<Plan> made = plan(model_of("normalised"));
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_EQ(made->clusters.size(), 1U);
  EXPECT_EQ(made->clusters[0].stages.size(), 2U);
  EXPECT_EQ(encode_plan(read_plan(node_data()).value()), encode_plan(*made));
  EXPECT_EQ(nodes_with_identity(read_plan_here(node_data()).value()).size(), 2U);
}

TEST_F(Clusterize, TheStagesOnDiskGiveTheNumbersOfTheWholeModel) {
  const ir::Model model = model_of("normalised");
  ASSERT_TRUE(plan(model).ok());
  const Engine whole = Engine::create(model).value();
  const at::Tensor x = at::randn({6, 4});
  c10::IValue passed = x;
  std::set<std::string> names;
  for (const Engine& stage : stages()) {
    passed = stage.run(Mode::kTrain, {passed}).at(0);
    for (const auto& [name, parameter] : stage.parameters()) {
      EXPECT_TRUE(names.insert(name).second) << name << " is trained in two stages";
    }
    EXPECT_FALSE(stage.parameters().empty()) << "a stage has something to train";
  }
  EXPECT_TRUE(at::equal(passed.toTensor(), whole.run(Mode::kTrain, {x}).at(0).toTensor()));
  EXPECT_EQ(names.size(), whole.parameters().size());
}

TEST_F(Clusterize, AModelWithTooFewWeightsForItsNodesIsRefused) {
  EXPECT_THAT(refusal(model_of("tied")), AllOf(HasSubstr("can be cut into at most 1 stage"),
                                               HasSubstr("every stage needs a parameter of its own")));
}

TEST_F(Clusterize, TheSameSeedGivesTheSamePlanButForItsName) {
  Plan first = plan(model_of("normalised")).value();
  Plan second = plan(model_of("normalised")).value();
  EXPECT_NE(first.id, second.id);
  second.id = first.id;
  EXPECT_EQ(encode_plan(first), encode_plan(second));
}

TEST_F(Clusterize, SizesThatCaptureFixedAreNoted) {
  EXPECT_THAT(plan(model_of("masked"))->notes, Contains(HasSubstr("the captured model takes no other sizes")));
}

TEST_F(Clusterize, OnlyPlanningWritesNothing) {
  const auto before = test::contents_of(node_data());
  const ir::Model model = model_of("normalised");
  ClusterizeOptions options;
  options.node_data = node_data();
  options.write = false;
  EXPECT_EQ(clusterize(model, graph::profile_shapes(model).value(), options)->clusters.size(), 1U);
  EXPECT_EQ(test::contents_of(node_data()), before);
}

TEST_F(Clusterize, ThePoolFileMayLieElsewhere) {
  const ir::Model model = model_of("normalised");
  const test::TemporaryFolder other;
  ClusterizeOptions options;
  options.node_data = other.path() / "plan";
  options.pool_file = node_data() / "node_configs.json";
  const Result<Plan> made = clusterize(model, graph::profile_shapes(model).value(), options);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(read_plan(options.node_data)->id, made->id);
}

TEST_F(Clusterize, AFailureLeavesTheEarlierPlan) {
  ASSERT_TRUE(plan(model_of("normalised")).ok());
  write_pool(1e-6);
  FormOptions form;
  form.training.optimizer_state = 100;
  EXPECT_THAT(refusal(model_of("normalised"), form),
              AllOf(HasSubstr("2 nodes have 2.00 kB of RAM in all"), HasSubstr("training this model takes")));
}

TEST_F(Clusterize, APoolFileThatMakesNoSenseIsRefused) {
  write_pool(0);
  EXPECT_THAT(refusal(model_of("normalised")), HasSubstr("expected a positive number (GB), got 0"));
  std::filesystem::remove(node_data() / "node_configs.json");
  EXPECT_THAT(refusal(model_of("normalised")), HasSubstr("node_configs.json"));
}

TEST_F(Clusterize, NumbersThatMakeNoSenseAreRefused) {
  const auto refused = [&](auto&& change) {
    FormOptions form;
    change(form);
    return refusal(model_of("normalised"), form);
  };
  EXPECT_THAT(refused([](FormOptions& form) { form.min_cluster_size = 0; }),
              HasSubstr("min_cluster_size must be from 1"));
  EXPECT_THAT(refused([](FormOptions& form) { form.min_cluster_size = 50; }), HasSubstr("but the pool has 2"));
  for (const double state : {-1.0, 1e30, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(refused([&](FormOptions& form) { form.training.optimizer_state = state; }),
                HasSubstr("state must be from 0 to 100"));
  }
  EXPECT_THAT(refused([](FormOptions& form) { form.training.updates_per_round = 0; }),
              HasSubstr("averagings must be from 1 to"));
}

TEST_F(Clusterize, ComplexParametersAreRefusedWithAWayAround) {
  archive::Payload weight = archive::testing::float_payload({2}, {3, 4});
  weight.dtype = DType::kComplex64;
  weight.sizes = weight.strides = {1};
  EXPECT_THAT(refusal(ir::testing::holder({{"phases", weight}})),
              AllOf(HasSubstr("the model's parameter \"phases\" is complex64"), HasSubstr("torch.view_as_complex")));
}

TEST_F(Clusterize, EndsWhereItsProgressSaysSoAndLeavesNothingBehind) {
  for (const double until : {0.0, 0.6}) {
    FormOptions form;
    form.progress = [&](double share) { return share < until; };
    refusal(model_of("normalised"), form);
    EXPECT_EQ(plan(model_of("normalised"), form).status().code(), Code::kCancelled) << "at " << until;
  }
}

}  // namespace
}  // namespace ravnest::plan
