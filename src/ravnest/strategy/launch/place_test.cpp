#include "ravnest/strategy/launch/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace ravnest::strategy {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Row {
  std::string name;
  PlaceFlags flags;
  Environment environment;
  int visible_devices = 0;
  Place expected;
};

Environment torchrun(int rank) {
  return {{"RANK", std::to_string(rank)},
          {"LOCAL_RANK", std::to_string(rank % 2)},
          {"WORLD_SIZE", "4"},
          {"LOCAL_WORLD_SIZE", "2"},
          {"GROUP_RANK", std::to_string(rank / 2)},
          {"MASTER_ADDR", "10.0.0.1"},
          {"MASTER_PORT", "29501"},
          {"TORCHELASTIC_RUN_ID", "none"},
          {"TORCHELASTIC_RESTART_COUNT", "1"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
}

Environment slurm() {
  return {
      {"SLURM_PROCID", "3"}, {"SLURM_LOCALID", "1"},   {"SLURM_NTASKS", "4"},  {"SLURM_NODEID", "1"},
      {"SLURM_NNODES", "2"}, {"SLURM_JOB_ID", "4711"}, {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_NODELIST", "gpu[07-08]"}};
}

// What sbatch gives the script itself, which runs once, on the first machine.
Environment job_script() {
  return {{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_NODEID", "0"},
          {"SLURM_NNODES", "2"}, {"SLURM_JOB_ID", "4"},  {"SLURM_GTIDS", "0"},  {"SLURM_JOB_NODELIST", "gpu[07-08]"}};
}

Environment mpich() {
  return {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
}

Environment open_mpi() {
  return {{"OMPI_COMM_WORLD_RANK", "2"},
          {"OMPI_COMM_WORLD_SIZE", "4"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
}

Environment by_hand(const std::string& world) {
  return {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29501"}, {"WORLD_SIZE", world}, {"NODE_RANK", "1"}};
}

// As scripts for PyTorch are started by hand.
Environment plain_rank(const std::string& master) {
  return {{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", master}, {"MASTER_PORT", "29501"}};
}

Environment with(Environment environment, const std::string& name, const std::string& value) {
  environment[name] = value;
  return environment;
}

Environment without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

Environment both(Environment one, Environment other) {
  one.merge(other);
  return one;
}

// A line per launcher.
std::vector<Row> rows() {
  const Address master{"10.0.0.1", 29501};
  return {
      {"nothing at all", {}, {}, 0, {.launcher = "one machine", .node = 0, .master = {"127.0.0.1", 0}}},
      {"one machine with GPUs",
       {},
       {},
       4,
       {.launcher = "one machine", .world = 4, .local_world = 4, .node = 0, .master = {"127.0.0.1", 0}}},
      {"--devices",
       {.devices = 2},
       {},
       4,
       {.launcher = "one machine", .world = 2, .local_world = 2, .node = 0, .master = {"127.0.0.1", 0}}},
      {"torchrun",
       {},
       torchrun(3),
       0,
       {.launcher = "torchrun",
        .rank = 3,
        .world = 4,
        .local_rank = 1,
        .local_world = 2,
        .node = 1,
        .nodes = 2,
        .master = master,
        .run_id = "none",
        .agent_store = true,
        .restarts = 1}},
      {"Slurm",
       {},
       slurm(),
       0,
       {.launcher = "Slurm",
        .rank = 3,
        .world = 4,
        .local_rank = 1,
        .local_world = 2,
        .node = 1,
        .nodes = 2,
        .master = {"gpu07", 24711},
        .run_id = "slurm-4711-0"}},
      {"torchrun under Slurm",
       {},
       both(torchrun(0), slurm()),
       0,
       {.launcher = "torchrun",
        .rank = 0,
        .world = 4,
        .local_rank = 0,
        .local_world = 2,
        .node = 0,
        .nodes = 2,
        .master = master,
        .run_id = "none",
        .agent_store = true,
        .restarts = 1}},
      {"Open MPI",
       {},
       open_mpi(),
       0,
       {.launcher = "Open MPI",
        .rank = 2,
        .world = 4,
        .local_rank = 2,
        .local_world = 4,
        .node = 0,
        .master = {"127.0.0.1", 29500}}},
      {"MPICH on two machines, and nobody says which of them this is",
       {.master = master},
       mpich(),
       0,
       {.launcher = "MPICH", .rank = 3, .world = 4, .local_rank = 1, .local_world = 2, .nodes = 2, .master = master}},
      {"Open MPI, rank by rank on another machine",
       {.master = master},
       {{"OMPI_COMM_WORLD_RANK", "2"},
        {"OMPI_COMM_WORLD_SIZE", "4"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
       0,
       {.launcher = "Open MPI",
        .rank = 2,
        .world = 4,
        .local_rank = 1,
        .local_world = 2,
        .nodes = 2,
        .master = master}},
      {"MPICH in the script of a Slurm job",
       {.master = master},
       both(mpich(), job_script()),
       0,
       {.launcher = "MPICH", .rank = 3, .world = 4, .local_rank = 1, .local_world = 2, .nodes = 2, .master = master}},
      {"the script of a Slurm job with one task",
       {},
       with(with(job_script(), "SLURM_NTASKS", "1"), "SLURM_NNODES", "1"),
       4,
       {.launcher = "one machine", .world = 4, .local_world = 4, .node = 0, .master = {"127.0.0.1", 0}}},
      {"ranks of one machine, in the script of a Slurm job with more",
       {.devices = 2},
       job_script(),
       4,
       {.launcher = "one machine", .world = 2, .local_world = 2, .node = 0, .master = {"127.0.0.1", 0}}},
      {"RANK alone, anywhere",
       {},
       plain_rank("10.0.0.1"),
       4,
       {.launcher = "RANK", .rank = 3, .world = 4, .local_rank = std::nullopt, .nodes = 4, .master = master}},
      {"RANK alone, where all ranks are here",
       {},
       plain_rank("127.0.0.1"),
       4,
       {.launcher = "RANK",
        .rank = 3,
        .world = 4,
        .local_rank = 3,
        .local_world = 4,
        .node = 0,
        .master = {"127.0.0.1", 29501}}},
      {"RANK alone, of one",
       {},
       {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29501"}},
       4,
       {.launcher = "RANK", .rank = 0, .node = 0, .master = master}},
      {"RANK with LOCAL_RANK",
       {},
       with(plain_rank("10.0.0.1"), "LOCAL_RANK", "1"),
       4,
       {.launcher = "RANK", .rank = 3, .world = 4, .local_rank = 1, .local_world = 2, .nodes = 4, .master = master}},
      {"RANK with flags that say where the ranks are",
       {.nodes = 2, .master = master},
       {{"RANK", "3"}, {"WORLD_SIZE", "4"}},
       4,
       {.launcher = "RANK",
        .rank = 3,
        .world = 4,
        .local_rank = std::nullopt,
        .local_world = 2,
        .nodes = 2,
        .master = master}},
      {"RANK from Slurm's numbers, in a task of srun",
       {},
       both(plain_rank("10.0.0.1"), slurm()),
       0,
       {.launcher = "RANK", .rank = 3, .world = 4, .local_rank = std::nullopt, .nodes = 4, .master = master}},
      {"Slurm, which shows each rank a GPU of its own",
       {.master = master},
       with(slurm(), "CUDA_VISIBLE_DEVICES", "0"),
       1,
       {.launcher = "Slurm",
        .rank = 3,
        .world = 4,
        .local_rank = 1,
        .local_world = 2,
        .has_own_gpu = true,
        .node = 1,
        .nodes = 2,
        .master = master,
        .run_id = "slurm-4711-0"}},
      {"torchrun, where somebody has left its ranks one GPU",
       {.master = master},
       with(without(torchrun(3), "TORCHELASTIC_USE_AGENT_STORE"), "CUDA_VISIBLE_DEVICES", "0"),
       1,
       {.launcher = "torchrun",
        .rank = 3,
        .world = 4,
        .local_rank = 1,
        .local_world = 2,
        .node = 1,
        .nodes = 2,
        .master = master,
        .run_id = "none",
        .restarts = 1}},
      {"Slurm, and where srun was called",
       {},
       with(slurm(), "SLURM_LAUNCH_NODE_IPADDR", "10.9.9.9"),
       0,
       {.launcher = "Slurm",
        .rank = 3,
        .world = 4,
        .local_rank = 1,
        .local_world = 2,
        .node = 1,
        .nodes = 2,
        .master = {"gpu07", 24711},
        .run_id = "slurm-4711-0"}},
      {"Kubernetes",
       {.nodes = 2, .devices = 4, .master = master},
       {{"JOB_COMPLETION_INDEX", "1"}},
       0,
       {.launcher = "Kubernetes", .world = 8, .local_world = 4, .node = 1, .nodes = 2, .master = master}},
      {"WORLD_SIZE counts machines",
       {.nodes = 2, .devices = 4},
       by_hand("2"),
       0,
       {.launcher = "MASTER_ADDR", .world = 8, .local_world = 4, .node = 1, .nodes = 2, .master = master}},
      {"WORLD_SIZE counts ranks",
       {.nodes = 2, .devices = 4},
       by_hand("8"),
       0,
       {.launcher = "MASTER_ADDR", .world = 8, .local_world = 4, .node = 1, .nodes = 2, .master = master}},
      {"without flags NODE_RANK means machines",
       {},
       by_hand("2"),
       4,
       {.launcher = "MASTER_ADDR", .world = 8, .local_world = 4, .node = 1, .nodes = 2, .master = master}},
  };
}

TEST(Place, IsReadFromWhatEveryLauncherSays) {
  for (const Row& row : rows()) {
    const auto place = find_place(row.flags, row.environment, row.visible_devices);
    ASSERT_TRUE(place.ok()) << row.name << ": " << place.status().message();
    EXPECT_EQ(place->launcher, row.expected.launcher) << row.name;
    EXPECT_EQ(place->rank, row.expected.rank) << row.name;
    EXPECT_EQ(place->world, row.expected.world) << row.name;
    EXPECT_EQ(place->local_rank, row.expected.local_rank) << row.name;
    EXPECT_EQ(place->local_world, row.expected.local_world) << row.name;
    EXPECT_EQ(place->has_own_gpu, row.expected.has_own_gpu) << row.name;
    EXPECT_EQ(place->node, row.expected.node) << row.name;
    EXPECT_EQ(place->nodes, row.expected.nodes) << row.name;
    EXPECT_EQ(to_string(place->master), to_string(row.expected.master)) << row.name;
    EXPECT_EQ(place->run_id, row.expected.run_id) << row.name;
    EXPECT_EQ(place->agent_store, row.expected.agent_store) << row.name;
    EXPECT_EQ(place->restarts, row.expected.restarts) << row.name;
  }
}

std::string refusal(const PlaceFlags& flags, const Environment& environment, int visible_devices = 0) {
  const auto place = find_place(flags, environment, visible_devices);
  EXPECT_EQ(place.status().code(), Code::kInvalid);
  return place.status().message();
}

TEST(Place, HalfOfALaunchersVariablesAreNamed) {
  EXPECT_THAT(refusal({}, without(torchrun(0), "LOCAL_RANK")),
              AllOf(HasSubstr("torchrun"), HasSubstr("and not LOCAL_RANK")));
  EXPECT_THAT(refusal({}, without(torchrun(0), "MASTER_PORT")), HasSubstr("and not MASTER_PORT"));
  EXPECT_THAT(refusal({}, without(slurm(), "SLURM_NODEID")), AllOf(HasSubstr("Slurm"), HasSubstr("SLURM_NODEID")));
  EXPECT_THAT(refusal({}, without(open_mpi(), "OMPI_COMM_WORLD_SIZE")), HasSubstr("OMPI_COMM_WORLD_SIZE"));
}

TEST(Place, ARankWithoutARunIsToldWhatItNeeds) {
  EXPECT_EQ(
      refusal({}, without(plain_rank("10.0.0.1"), "WORLD_SIZE")),
      "RANK is set, and not WORLD_SIZE: a rank needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; without RANK, "
      "this process starts the ranks of its machine");
  EXPECT_THAT(refusal({}, without(plain_rank("10.0.0.1"), "MASTER_ADDR")), HasSubstr("and not MASTER_ADDR"));
  EXPECT_THAT(refusal({}, without(plain_rank("10.0.0.1"), "MASTER_PORT")), HasSubstr("and not MASTER_PORT"));
  EXPECT_THAT(refusal({}, with(plain_rank("10.0.0.1"), "RANK", "4")), HasSubstr("RANK=4 is beyond WORLD_SIZE=4"));
  EXPECT_THAT(refusal({}, with(plain_rank("10.0.0.1"), "LOCAL_RANK", "4")), HasSubstr("LOCAL_RANK must be"));
}

// Some set RANK and WORLD_SIZE once for each machine.
TEST(Place, ARankThatCountsMachinesIsRefusedWhereTheFlagsTell) {
  EXPECT_EQ(refusal({.nodes = 4, .devices = 2}, plain_rank("10.0.0.1")),
            "WORLD_SIZE=4 counts ranks where RANK is set, and 4 machines with 2 ranks each are 8: where RANK counts "
            "machines, set NODE_RANK in its place");
  EXPECT_THAT(refusal({.devices = 3}, plain_rank("10.0.0.1")), HasSubstr("2 machines with 3 ranks each are 6"));
  EXPECT_THAT(refusal({.nodes = 3}, plain_rank("10.0.0.1")), HasSubstr("3 machines with 2 ranks each are 6"));
}

TEST(Place, ARankBeyondTheWorldIsRefused) {
  EXPECT_EQ(refusal({}, with(torchrun(0), "RANK", "4")), "RANK=4 is beyond WORLD_SIZE=4: ranks count from 0 to 3");
  EXPECT_THAT(refusal({}, with(slurm(), "SLURM_PROCID", "4")),
              HasSubstr("SLURM_PROCID must be a whole number from 0 to 3"));
  EXPECT_THAT(refusal({.nodes = 2, .node_rank = 2}, by_hand("2")), HasSubstr("machine 2 is beyond the 2"));
}

TEST(Place, NumbersAreNumbers) {
  for (const char* bad : {"", "x", "1x", "-1", "99999999999999999999", "1.5"}) {
    if (*bad == '\0') continue;  // as if it were not set
    EXPECT_THAT(refusal({}, with(torchrun(0), "RANK", bad)), HasSubstr("RANK must be a whole number")) << bad;
  }
  EXPECT_THAT(refusal({}, with(torchrun(0), "MASTER_PORT", "70000")),
              HasSubstr("MASTER_PORT must be a whole number from 1 to 65535"));
  EXPECT_THAT(refusal({.nodes = 0}, {}), HasSubstr("--nodes"));
}

TEST(Place, NumbersWhoseProductsAreNoneAreRefused) {
  constexpr int kGreatest = std::numeric_limits<int>::max();
  constexpr int kMany = 1 << 20;
  EXPECT_EQ(refusal({.node_rank = kGreatest}, {}), "--node-rank must be from 0 to 1048575, not 2147483647");
  EXPECT_THAT(refusal({.nodes = kGreatest}, {}), HasSubstr("--nodes must be from 1 to 1048576"));
  EXPECT_THAT(refusal({.devices = kMany + 1}, {}), HasSubstr("--devices must be from 1"));
  EXPECT_THAT(refusal({.nodes = kMany, .devices = kMany, .node_rank = 0}, by_hand("5")), HasSubstr("fits neither"));
  EXPECT_THAT(refusal({.nodes = kMany, .devices = kMany, .node_rank = 0}, {}), HasSubstr("are too many"));
}

TEST(Place, TheScriptOfAJobIsNotItsFirstTask) {
  EXPECT_EQ(refusal({}, job_script(), 4),
            "this is the script or the shell of a Slurm job with SLURM_NTASKS=4, and not one of its tasks: start them "
            "by srun "
            "(in the script: srun COMMAND), or give --devices for ranks on this machine alone");
  EXPECT_THAT(refusal({}, without(job_script(), "SLURM_NTASKS")), HasSubstr("SLURM_NNODES=2"));
  // The shell that salloc opens on the first machine is a step, with the number that Slurm has for such shells.
  EXPECT_THAT(refusal({}, with(job_script(), "SLURM_STEP_ID", "4294967290")), HasSubstr("by srun"));
  // Or the one on the machine where salloc was called, which has the job's numbers and none of a task.
  EXPECT_THAT(refusal({}, {{"SLURM_JOB_ID", "4"}, {"SLURM_NTASKS", "4"}, {"SLURM_NNODES", "2"}}), HasSubstr("by srun"));
}

TEST(Place, MachinesWithDifferentNumbersOfTasksAreRefused) {
  EXPECT_EQ(refusal({}, with(slurm(), "SLURM_STEP_TASKS_PER_NODE", "3,1")),
            "Slurm has started 4 tasks on 2 machines (3,1): each has to have as many (srun --ntasks-per-node)");
  EXPECT_THAT(refusal({}, with(slurm(), "SLURM_NTASKS", "5")), HasSubstr("5 tasks on 2 machines: each has"));
  EXPECT_TRUE(find_place({}, with(slurm(), "SLURM_STEP_TASKS_PER_NODE", "2(x2)"), 0).ok());
}

TEST(Place, AWorldSizeThatFitsNeitherReadingIsRefusedWithBoth) {
  EXPECT_THAT(refusal({.nodes = 2, .devices = 4}, by_hand("4")),
              AllOf(HasSubstr("WORLD_SIZE=4"), HasSubstr("2 machines"), HasSubstr("8 ranks")));
  EXPECT_THAT(refusal({.devices = 4}, by_hand("8")),
              AllOf(HasSubstr("8 machines"), HasSubstr("2 with 4 ranks each"), HasSubstr("--nodes")));
}

TEST(Place, SeveralMachinesNeedAMasterAndANumber) {
  EXPECT_THAT(refusal({.nodes = 2, .node_rank = 0}, {}), HasSubstr("set MASTER_ADDR and MASTER_PORT"));
  EXPECT_THAT(refusal({.nodes = 2, .master = Address{"a", 1}}, {}), HasSubstr("--node-rank"));
  EXPECT_THAT(refusal({}, with(open_mpi(), "OMPI_COMM_WORLD_LOCAL_SIZE", "3")), HasSubstr("where rank 0 is"));
}

TEST(Place, FlagsThatContradictTheLauncherAreRefused) {
  EXPECT_THAT(refusal({.devices = 4}, torchrun(0)),
              AllOf(HasSubstr("--devices 4"), HasSubstr("torchrun"), HasSubstr("2")));
  EXPECT_THAT(refusal({.nodes = 3}, slurm()), HasSubstr("--nodes 3"));
  EXPECT_THAT(refusal({.node_rank = 0}, slurm()), HasSubstr("--node-rank 0 does not fit what Slurm says"));
  EXPECT_THAT(refusal({.node_rank = 1}, open_mpi()), HasSubstr("--node-rank 1"));
  EXPECT_TRUE(find_place({.nodes = 2, .devices = 2, .node_rank = 1}, torchrun(2), 0).ok());
}

TEST(Place, AMachineStartsItsRanksFromItsFirst) {
  const auto place = find_place({.nodes = 2, .devices = 4}, by_hand("8"), 0);
  EXPECT_FALSE(place->rank.has_value());
  EXPECT_EQ(place->first_rank(), 4);
}

}  // namespace
}  // namespace ravnest::strategy
