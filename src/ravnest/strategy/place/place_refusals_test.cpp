// What nobody can make a rank's place of, and what is said then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "ravnest/strategy/place/place.h"
#include "ravnest/strategy/place/testing/launcher_environments.h"

namespace ravnest::strategy {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string refusal(const PlaceFlags& flags, const Environment& environment, int visible_devices = 0) {
  const auto place = find_place(flags, environment, visible_devices);
  EXPECT_EQ(place.status().code(), Code::kInvalid);
  return place.status().message();
}

TEST(PlaceRefusals, HalfOfALaunchersVariablesAreNamed) {
  EXPECT_THAT(refusal({}, without(torchrun(0), "LOCAL_RANK")),
              AllOf(HasSubstr("torchrun"), HasSubstr("and not LOCAL_RANK")));
  EXPECT_THAT(refusal({}, without(torchrun(0), "MASTER_PORT")), HasSubstr("and not MASTER_PORT"));
  EXPECT_THAT(refusal({}, without(slurm(), "SLURM_NODEID")), AllOf(HasSubstr("Slurm"), HasSubstr("SLURM_NODEID")));
  EXPECT_THAT(refusal({}, without(open_mpi(), "OMPI_COMM_WORLD_SIZE")), HasSubstr("OMPI_COMM_WORLD_SIZE"));
}

TEST(PlaceRefusals, ARankWithoutARunIsToldWhatItNeeds) {
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
TEST(PlaceRefusals, ARankThatCountsMachinesIsRefusedWhereTheFlagsTell) {
  EXPECT_EQ(refusal({.nodes = 4, .devices = 2}, plain_rank("10.0.0.1")),
            "WORLD_SIZE=4 counts ranks where RANK is set, and 4 machines with 2 ranks each are 8: where RANK counts "
            "machines, set NODE_RANK in its place");
  EXPECT_THAT(refusal({.devices = 3}, plain_rank("10.0.0.1")), HasSubstr("2 machines with 3 ranks each are 6"));
  EXPECT_THAT(refusal({.nodes = 3}, plain_rank("10.0.0.1")), HasSubstr("3 machines with 2 ranks each are 6"));
}

TEST(PlaceRefusals, ARankBeyondTheWorldIsRefused) {
  EXPECT_EQ(refusal({}, with(torchrun(0), "RANK", "4")), "RANK=4 is beyond WORLD_SIZE=4: ranks count from 0 to 3");
  EXPECT_THAT(refusal({}, with(slurm(), "SLURM_PROCID", "4")),
              HasSubstr("SLURM_PROCID must be a whole number from 0 to 3"));
  EXPECT_THAT(refusal({.nodes = 2, .node_rank = 2}, by_hand("2")), HasSubstr("machine 2 is beyond the 2"));
}

TEST(PlaceRefusals, NumbersAreNumbers) {
  for (const char* bad : {"", "x", "1x", "-1", "99999999999999999999", "1.5"}) {
    if (*bad == '\0') continue;  // as if it were not set
    EXPECT_THAT(refusal({}, with(torchrun(0), "RANK", bad)), HasSubstr("RANK must be a whole number")) << bad;
  }
  EXPECT_THAT(refusal({}, with(torchrun(0), "MASTER_PORT", "70000")),
              HasSubstr("MASTER_PORT must be a whole number from 1 to 65535"));
  EXPECT_THAT(refusal({.nodes = 0}, {}), HasSubstr("--nodes"));
}

TEST(PlaceRefusals, NumbersWhoseProductsAreNoneAreRefused) {
  constexpr int kGreatest = std::numeric_limits<int>::max();
  constexpr int kMany = 1 << 20;
  EXPECT_EQ(refusal({.node_rank = kGreatest}, {}), "--node-rank must be from 0 to 1048575, not 2147483647");
  EXPECT_THAT(refusal({.nodes = kGreatest}, {}), HasSubstr("--nodes must be from 1 to 1048576"));
  EXPECT_THAT(refusal({.devices = kMany + 1}, {}), HasSubstr("--devices must be from 1"));
  EXPECT_THAT(refusal({.nodes = kMany, .devices = kMany, .node_rank = 0}, by_hand("5")), HasSubstr("fits neither"));
  EXPECT_THAT(refusal({.nodes = kMany, .devices = kMany, .node_rank = 0}, {}), HasSubstr("are too many"));
}

TEST(PlaceRefusals, TheScriptOfAJobIsNotItsFirstTask) {
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

TEST(PlaceRefusals, MachinesWithDifferentNumbersOfTasksAreRefused) {
  EXPECT_EQ(refusal({}, with(slurm(), "SLURM_STEP_TASKS_PER_NODE", "3,1")),
            "Slurm has started 4 tasks on 2 machines (3,1): each has to have as many (srun --ntasks-per-node)");
  EXPECT_THAT(refusal({}, with(slurm(), "SLURM_NTASKS", "5")), HasSubstr("5 tasks on 2 machines: each has"));
  EXPECT_TRUE(find_place({}, with(slurm(), "SLURM_STEP_TASKS_PER_NODE", "2(x2)"), 0).ok());
}

TEST(PlaceRefusals, AWorldSizeThatFitsNeitherReadingIsRefusedWithBoth) {
  EXPECT_THAT(refusal({.nodes = 2, .devices = 4}, by_hand("4")),
              AllOf(HasSubstr("WORLD_SIZE=4"), HasSubstr("2 machines"), HasSubstr("8 ranks")));
  EXPECT_THAT(refusal({.devices = 4}, by_hand("8")),
              AllOf(HasSubstr("8 machines"), HasSubstr("2 with 4 ranks each"), HasSubstr("--nodes")));
}

TEST(PlaceRefusals, SeveralMachinesNeedAMasterAndANumber) {
  EXPECT_THAT(refusal({.nodes = 2, .node_rank = 0}, {}), HasSubstr("set MASTER_ADDR and MASTER_PORT"));
  EXPECT_THAT(refusal({.nodes = 2, .master = Address{"a", 1}}, {}), HasSubstr("--node-rank"));
  EXPECT_THAT(refusal({}, with(open_mpi(), "OMPI_COMM_WORLD_LOCAL_SIZE", "3")), HasSubstr("where rank 0 is"));
}

TEST(PlaceRefusals, FlagsThatContradictTheLauncherAreRefused) {
  EXPECT_THAT(refusal({.devices = 4}, torchrun(0)),
              AllOf(HasSubstr("--devices 4"), HasSubstr("torchrun"), HasSubstr("2")));
  EXPECT_THAT(refusal({.nodes = 3}, slurm()), HasSubstr("--nodes 3"));
  EXPECT_THAT(refusal({.node_rank = 0}, slurm()), HasSubstr("--node-rank 0 does not fit what Slurm says"));
  EXPECT_THAT(refusal({.node_rank = 1}, open_mpi()), HasSubstr("--node-rank 1"));
  EXPECT_TRUE(find_place({.nodes = 2, .devices = 2, .node_rank = 1}, torchrun(2), 0).ok());
}

}  // namespace
}  // namespace ravnest::strategy
