// For tests: what each launcher has in the environment of a rank. Not part of any library.
#pragma once

#include <string>

#include "ravnest/strategy/place/place.h"

namespace ravnest::strategy {

inline Environment torchrun(int rank) {
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

inline Environment slurm() {
  return {
      {"SLURM_PROCID", "3"}, {"SLURM_LOCALID", "1"},   {"SLURM_NTASKS", "4"},  {"SLURM_NODEID", "1"},
      {"SLURM_NNODES", "2"}, {"SLURM_JOB_ID", "4711"}, {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_NODELIST", "gpu[07-08]"}};
}

// What sbatch gives the script itself, which runs once, on the first machine.
inline Environment job_script() {
  return {{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_NODEID", "0"},
          {"SLURM_NNODES", "2"}, {"SLURM_JOB_ID", "4"},  {"SLURM_GTIDS", "0"},  {"SLURM_JOB_NODELIST", "gpu[07-08]"}};
}

inline Environment mpich() {
  return {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
}

inline Environment open_mpi() {
  return {{"OMPI_COMM_WORLD_RANK", "2"},
          {"OMPI_COMM_WORLD_SIZE", "4"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
}

inline Environment by_hand(const std::string& world) {
  return {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29501"}, {"WORLD_SIZE", world}, {"NODE_RANK", "1"}};
}

// As scripts for PyTorch are started by hand.
inline Environment plain_rank(const std::string& master) {
  return {{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", master}, {"MASTER_PORT", "29501"}};
}

inline Environment with(Environment environment, const std::string& name, const std::string& value) {
  environment[name] = value;
  return environment;
}

inline Environment without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

inline Environment both(Environment one, Environment other) {
  one.merge(other);
  return one;
}

}  // namespace ravnest::strategy
