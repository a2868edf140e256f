#include "ravnest/strategy/place/place.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ravnest/strategy/place/testing/launcher_environments.h"

namespace ravnest::strategy {
namespace {

struct Row {
  std::string name;
  PlaceFlags flags;
  Environment environment;
  int visible_devices = 0;
  Place expected;
};

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

TEST(Place, AMachineStartsItsRanksFromItsFirst) {
  const auto place = find_place({.nodes = 2, .devices = 4}, by_hand("8"), 0);
  EXPECT_FALSE(place->rank.has_value());
  EXPECT_EQ(place->first_rank(), 4);
}

}  // namespace
}  // namespace ravnest::strategy
