// Which rank of a data-parallel run this process is, as the launcher that started it says: a pure function.
//
// People start the ranks of a run with what they have: torchrun, Slurm's srun, mpirun, a Kubernetes job, or by hand on
// each machine. Each of them says by other variables of the environment who is who. All of that is read here, and what
// does not fit together is refused with the variables and the readings: a rank that is mistaken about itself would let
// all others wait.
//
// Under Slurm rank 0 is on the first host of the step's list, or of the job's. SLURM_LAUNCH_NODE_IPADDR, which scripts
// take for it now and then, is where srun was called: within a job's script that is the first host of the job, so it
// says nothing new, but from a shell on a login node it is that one, where no rank runs. It is not read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "ravnest/base/status.h"
#include "ravnest/net/address.h"

namespace ravnest::strategy {

using Environment = std::map<std::string, std::string>;

// What the user wrote on the command line; it goes before what the environment says.
struct PlaceFlags {
  std::optional<int> nodes = {};       // --nodes: machines
  std::optional<int> devices = {};     // --devices: ranks on each of them
  std::optional<int> node_rank = {};   // --node-rank: which of the machines this one is
  std::optional<Address> master = {};  // --master: where rank 0 listens
};

struct Place {
  std::string launcher = {};  // for messages: "torchrun", "Slurm", "Open MPI", "MPICH", "Kubernetes", "one machine" ...
  std::optional<int> rank = {};  // none: this process is to start the ranks of its machine, from `first_rank` on
  int world = 1;                 // ranks in all
  // Which rank among those of this machine, and how many these are. Where RANK is all that is known, as plain PyTorch
  // scripts have it, `local_rank` is none unless all ranks are here, and `local_world` and `nodes` are as many as there
  // have to be and as there can be.
  std::optional<int> local_rank = 0;
  int local_world = 1;
  // The launcher shows each of them one GPU, which is its own (srun --gpus-per-task=1).
  bool has_own_gpu = false;
  // Which of the machines. None where only a rank's numbers are known and there are several: ranks need not be put on
  // machines in order (mpirun --map-by node). A process without a rank always knows.
  std::optional<int> node = {};
  int nodes = 1;
  Address master = {};       // where rank 0 is met; port 0 where all ranks are this machine's and none was given
  std::string run_id = {};   // the same for all ranks of a run, another one for each run; empty where nobody gave one
  bool agent_store = false;  // torchrun's agent holds the master's port, with a store behind it
  int restarts = 0;          // how often torchrun has started the run again

  // Of the ranks that a process without a rank starts; all machines have as many.
  int first_rank() const { return node.value() * local_world; }
};

// `visible_devices`: how many GPUs this machine shows, 0 for none; then a machine has one rank unless --devices says
// otherwise. kInvalid, in a sentence for the user, where variables are missing, are no numbers, or contradict each
// other or the flags.
Result<Place> find_place(const PlaceFlags& flags, const Environment& environment, int visible_devices);

}  // namespace ravnest::strategy
