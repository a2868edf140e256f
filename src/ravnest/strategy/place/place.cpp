#include "ravnest/strategy/place/place.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "ravnest/strategy/place/host_list.h"
#include "ravnest/strategy/place/variables.h"
#include "ravnest/transport/tcp/endpoint.h"

namespace ravnest::strategy {
namespace {

// More ranks than any run has, and few enough that their products are numbers.
constexpr int kMostRanks = 1 << 20;
constexpr std::uint16_t kDefaultPort = 29500;  // as torch's launchers have it
constexpr const char* kLoopback = "127.0.0.1";

// A rank's numbers under the names that one launcher has for them.
struct Names {
  const char* launcher;
  const char* rank;
  const char* world;
  const char* local_rank;
  const char* local_world;
};
constexpr Names kPlain = {"RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names kTorchrun = {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names kOpenMpi = {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                            "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names kMpich = {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

// Whatever launcher, the master is --master, else MASTER_ADDR and MASTER_PORT, else what the launcher knows.
Result<Address> master_of(const PlaceFlags& flags, const Variables& variables, const std::string& known_host,
                          std::uint16_t known_port) {
  if (flags.master) return *flags.master;
  Address master{known_host, known_port};
  if (variables.has("MASTER_ADDR")) master.host = variables.text_of("MASTER_ADDR");
  if (variables.has("MASTER_PORT")) {
    const auto port = variables.number("MASTER_PORT", 1, 65535);
    if (!port.ok()) return port.status();
    master.port = static_cast<std::uint16_t>(*port);
  }
  return master;
}

Status no_master(std::string_view launcher) {
  return invalid(launcher,
                 " has started ranks on several machines and does not say where rank 0 is: set MASTER_ADDR (and "
                 "MASTER_PORT), or give --master HOST:PORT");
}

Status check_flags(const PlaceFlags& flags, const Place& place) {
  const auto differ = [&](std::string_view flag, int said, std::string_view what, int found) {
    return invalid(flag, " ", said, " does not fit what ", place.launcher, " says: ", what, " ", found);
  };
  if (flags.nodes && *flags.nodes != place.nodes) return differ("--nodes", *flags.nodes, "machines:", place.nodes);
  if (flags.devices && *flags.devices != place.local_world)
    return differ("--devices", *flags.devices, "ranks on this machine:", place.local_world);
  if (flags.node_rank && *flags.node_rank >= place.nodes)
    return differ("--node-rank", *flags.node_rank, "machines:", place.nodes);
  if (flags.node_rank && place.node && *flags.node_rank != *place.node)
    return differ("--node-rank", *flags.node_rank, "this is machine", *place.node);
  return {};
}

// The two numbers that every launcher of ranks gives.
Result<Place> rank_of_all(const Names& names, const Variables& variables) {
  Place place;
  place.launcher = names.launcher;
  const auto world = variables.number(names.world, 1, kMostRanks);
  if (!world.ok()) return world.status();
  const auto rank = variables.number(names.rank, 0, kMostRanks);
  if (!rank.ok()) return rank.status();
  if (*rank >= *world)
    return invalid(names.rank, "=", *rank, " is beyond ", names.world, "=", *world, ": ranks count from 0 to ",
                   *world - 1);
  place.rank = *rank;
  place.world = *world;
  return place;
}

// The four that most give.
Result<Place> ranks_of(const Names& names, const Variables& variables) {
  if (Status complete =
          variables.all_of(names.launcher, {names.rank, names.world, names.local_rank, names.local_world});
      !complete.ok())
    return complete;
  auto place = rank_of_all(names, variables);
  if (!place.ok()) return place;
  const auto local_world = variables.number(names.local_world, 1, place->world);
  if (!local_world.ok()) return local_world.status();
  const auto local_rank = variables.number(names.local_rank, 0, *local_world - 1);
  if (!local_rank.ok()) return local_rank.status();
  place->local_rank = *local_rank;
  place->local_world = *local_world;
  place->nodes = (place->world + *local_world - 1) / *local_world;
  if (place->nodes == 1) place->node = 0;
  return place;
}

// RANK without the rest of what torchrun sets: as scripts for PyTorch are often started, by hand, by a line of the
// user's own within a job, or by Kubeflow.
bool is_plain_rank(const Variables& variables) {
  return variables.has("RANK") && !variables.has("LOCAL_WORLD_SIZE") && !variables.has("GROUP_RANK") &&
         !variables.has("TORCHELASTIC_RUN_ID");
}

// What RANK does not say: which of its machine's ranks this is, and how many these are.
Status machines_of(const PlaceFlags& flags, const Variables& variables, Place& place) {
  const bool is_one_machine = place.world == 1 || transport::tcp::is_loopback(place.master.host);
  place.nodes = is_one_machine ? 1 : place.world;
  place.local_world = place.world / place.nodes;
  if (flags.nodes || flags.devices) {
    const auto share = [&](int parts) { return (place.world + parts - 1) / parts; };
    place.nodes = flags.nodes ? *flags.nodes : share(*flags.devices);
    place.local_world = flags.devices ? *flags.devices : share(place.nodes);
    const std::int64_t ranks = std::int64_t{place.nodes} * place.local_world;
    if (ranks != place.world)
      return invalid("WORLD_SIZE=", place.world, " counts ranks where RANK is set, and ", place.nodes,
                     " machines with ", place.local_world, " ranks each are ", ranks,
                     ": where RANK counts machines, set NODE_RANK in its place");
  }
  if (place.nodes == 1) place.node = 0;
  place.local_rank = place.nodes == 1 ? place.rank : std::nullopt;
  if (!variables.has("LOCAL_RANK")) return {};
  const auto local_rank = variables.number("LOCAL_RANK", 0, place.world - 1);
  if (!local_rank.ok()) return local_rank.status();
  place.local_rank = *local_rank;
  place.local_world = std::max(place.local_world, *local_rank + 1);
  return {};
}

Result<Place> by_plain_rank(const PlaceFlags& flags, const Variables& variables) {
  for (const char* name : {"WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    if (variables.has(name) || (flags.master && name != std::string_view("WORLD_SIZE"))) continue;
    return invalid(
        "RANK is set, and not ", name,
        ": a rank needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; without RANK, this process starts the "
        "ranks of its machine");
  }
  auto place = rank_of_all(kPlain, variables);
  if (!place.ok()) return place;
  const auto master = master_of(flags, variables, "", 0);
  if (!master.ok()) return master.status();
  place->master = *master;
  if (Status known = machines_of(flags, variables, *place); !known.ok()) return known;
  return place;
}

Result<Place> by_torchrun(const PlaceFlags& flags, const Variables& variables) {
  auto place = ranks_of(kTorchrun, variables);
  if (!place.ok()) return place;
  if (Status complete = variables.all_of("torchrun", {"RANK", "MASTER_ADDR", "MASTER_PORT"}); !complete.ok())
    return complete;
  if (variables.has("GROUP_RANK")) {
    const auto node = variables.number("GROUP_RANK", 0, place->nodes - 1);
    if (!node.ok()) return node.status();
    place->node = *node;
  }
  const auto master = master_of(flags, variables, "", 0);
  if (!master.ok()) return master.status();
  place->master = *master;
  place->run_id = variables.text_of("TORCHELASTIC_RUN_ID");
  place->agent_store = variables.text_of("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (variables.has("TORCHELASTIC_RESTART_COUNT")) {
    const auto restarts = variables.number("TORCHELASTIC_RESTART_COUNT", 0, kMostRanks);
    if (!restarts.ok()) return restarts.status();
    place->restarts = *restarts;
  }
  return place;
}

Result<Place> by_mpi(const Names& names, const PlaceFlags& flags, const Variables& variables) {
  auto place = ranks_of(names, variables);
  if (!place.ok()) return place;
  const auto master = master_of(flags, variables, place->nodes == 1 ? kLoopback : "", kDefaultPort);
  if (!master.ok()) return master.status();
  if (master->host.empty()) return no_master(names.launcher);
  place->master = *master;
  return place;
}

// Whether srun has started this process as one of several. The script of a job (sbatch), and the shell that salloc
// opens on a job's first machine, have the numbers of task 0 too, but not of a step of their own, or of a step with a
// number that no step of srun has.
bool is_srun_task(const Variables& variables) {
  return variables.has("SLURM_PROCID") && variables.number("SLURM_STEP_ID", 0, 2147483647).ok();
}

// Such a script or shell, or one of salloc on the machine where it was called, where nobody says what it is to start:
// one process, and all that Slurm has planned would wait.
Status check_job_script(const PlaceFlags& flags, const Variables& variables) {
  if (flags.nodes || flags.devices) return {};
  for (const char* name : {"SLURM_NTASKS", "SLURM_NNODES"}) {
    if (!variables.has(name) || variables.text_of(name) == "1") continue;
    return invalid(
        "this is the script or the shell of a Slurm job with ", name, "=", variables.text_of(name),
        ", and not one of its tasks: start them by srun (in the script: srun COMMAND), or give --devices for "
        "ranks on this machine alone");
  }
  return {};
}

Result<Place> by_slurm(const PlaceFlags& flags, const Variables& variables) {
  if (Status complete = variables.all_of(
          "Slurm", {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NNODES", "SLURM_JOB_ID"});
      !complete.ok())
    return complete;
  Place place;
  place.launcher = "Slurm";
  const auto world = variables.number("SLURM_NTASKS", 1, kMostRanks);
  if (!world.ok()) return world.status();
  const auto nodes = variables.number("SLURM_NNODES", 1, *world);
  if (!nodes.ok()) return nodes.status();
  // Every machine has as many ranks: what a rank is told of its neighbours is told of all. Slurm writes 2(x3) for
  // 2,2,2.
  const std::string by_machine = variables.text_of("SLURM_STEP_TASKS_PER_NODE");
  if (*world % *nodes != 0 || by_machine.find(',') != std::string::npos)
    return invalid("Slurm has started ", *world, " tasks on ", *nodes, " machines",
                   by_machine.empty() ? "" : text(" (", by_machine, ")"),
                   ": each has to have as many (srun --ntasks-per-node)");
  const auto rank = variables.number("SLURM_PROCID", 0, *world - 1);
  if (!rank.ok()) return rank.status();
  const auto local_rank = variables.number("SLURM_LOCALID", 0, *world / *nodes - 1);
  if (!local_rank.ok()) return local_rank.status();
  const auto node = variables.number("SLURM_NODEID", 0, *nodes - 1);
  if (!node.ok()) return node.status();
  const auto job = variables.number("SLURM_JOB_ID", 0, 2147483647);
  if (!job.ok()) return job.status();
  place.rank = *rank;
  place.world = *world;
  place.local_rank = *local_rank;
  place.local_world = *world / *nodes;
  place.node = *node;
  place.nodes = *nodes;
  std::string host = *nodes == 1 ? kLoopback : "";
  if (*nodes > 1 && variables.has("SLURM_STEP_NODELIST")) {
    const auto first = first_host(variables.text_of("SLURM_STEP_NODELIST"));
    if (!first.ok()) return first.status().with_context("SLURM_STEP_NODELIST");
    host = *first;
  } else if (*nodes > 1 && variables.has("SLURM_JOB_NODELIST")) {
    const auto first = first_host(variables.text_of("SLURM_JOB_NODELIST"));
    if (!first.ok()) return first.status().with_context("SLURM_JOB_NODELIST");
    host = *first;
  }
  // Jobs that share a machine do not share a port: it follows from the job's number, which all its ranks know.
  const auto port = static_cast<std::uint16_t>(20000 + *job % 10000);
  const auto master = master_of(flags, variables, host, port);
  if (!master.ok()) return master.status();
  if (master->host.empty()) return no_master("Slurm");
  place.master = *master;
  place.run_id = text("slurm-", *job, "-", variables.text_of("SLURM_STEP_ID"));
  return place;
}

// One command per machine, which then starts its ranks. WORLD_SIZE is the number of machines to some users and that of
// ranks to others: with the flags there is one reading that fits.
Result<Place> by_hand(std::string launcher, const char* node_variable, const PlaceFlags& flags,
                      const Variables& variables, int visible_devices) {
  Place place;
  place.launcher = std::move(launcher);
  place.local_world = flags.devices.value_or(std::max(visible_devices, 1));
  place.nodes = flags.nodes.value_or(1);
  const auto ranks_on = [&](int nodes) { return std::int64_t{nodes} * place.local_world; };
  if (variables.has("WORLD_SIZE")) {
    const auto said = variables.number("WORLD_SIZE", 1, kMostRanks);
    if (!said.ok()) return said.status();
    if (!flags.nodes && !flags.devices) {
      place.nodes = *said;
    } else if (flags.nodes && *said != place.nodes && *said != ranks_on(place.nodes)) {
      return invalid("WORLD_SIZE=", *said, " fits neither reading: with --nodes ", place.nodes, " and ",
                     place.local_world, " ranks on each it is ", place.nodes, " machines, or ", ranks_on(place.nodes),
                     " ranks");
    } else if (!flags.nodes) {
      if (*said % place.local_world == 0 && place.local_world > 1)
        return invalid("WORLD_SIZE=", *said, " may mean ", *said, " machines, or ", *said / place.local_world, " with ",
                       place.local_world, " ranks each: give --nodes");
      place.nodes = *said;
    }
  }
  if (ranks_on(place.nodes) > kMostRanks)
    return invalid(place.nodes, " machines with ", place.local_world, " ranks each are too many");
  place.world = place.nodes * place.local_world;
  place.node = 0;
  if (flags.node_rank) {
    place.node = *flags.node_rank;
  } else if (variables.has(node_variable)) {
    const auto node = variables.number(node_variable, 0, kMostRanks);
    if (!node.ok()) return node.status();
    place.node = *node;
  } else if (place.nodes > 1) {
    return invalid("which of the ", place.nodes, " machines is this? Set NODE_RANK, or give --node-rank (from 0)");
  }
  if (*place.node >= place.nodes)
    return invalid("machine ", *place.node, " is beyond the ", place.nodes, " that there are: --node-rank (else ",
                   node_variable, ") counts them from 0 to ", place.nodes - 1);
  const auto master =
      master_of(flags, variables, place.nodes == 1 ? kLoopback : "", place.nodes == 1 ? 0 : kDefaultPort);
  if (!master.ok()) return master.status();
  if (master->host.empty())
    return invalid("there are ", place.nodes,
                   " machines: set MASTER_ADDR and MASTER_PORT to where the first one is reached, or give --master "
                   "HOST:PORT");
  place.master = *master;
  return place;
}

Status check_numbers(const PlaceFlags& flags) {
  const auto check = [](const char* flag, const std::optional<int>& value, int least, int most) {
    return value && (*value < least || *value > most)
               ? invalid(flag, " must be from ", least, " to ", most, ", not ", *value)
               : Status();
  };
  if (Status nodes = check("--nodes", flags.nodes, 1, kMostRanks); !nodes.ok()) return nodes;
  if (Status devices = check("--devices", flags.devices, 1, kMostRanks); !devices.ok()) return devices;
  return check("--node-rank", flags.node_rank, 0, kMostRanks - 1);
}

}  // namespace

Result<Place> find_place(const PlaceFlags& flags, const Environment& environment, int visible_devices) {
  if (Status sane = check_numbers(flags); !sane.ok()) return sane;
  const Variables variables(environment);
  // A launcher of ranks within another one's job is the one that counts: torchrun under srun, mpirun under sbatch.
  auto by_ranks = [&]() -> std::optional<Result<Place>> {
    if (is_plain_rank(variables)) return by_plain_rank(flags, variables);
    if (variables.has("RANK") || variables.has("LOCAL_RANK")) return by_torchrun(flags, variables);
    if (variables.has(kOpenMpi.rank)) return by_mpi(kOpenMpi, flags, variables);
    if (is_srun_task(variables)) return by_slurm(flags, variables);
    if (variables.has(kMpich.rank)) return by_mpi(kMpich, flags, variables);
    return std::nullopt;
  }();
  if (by_ranks) {
    if (!by_ranks->ok()) return *by_ranks;
    if (Status fits = check_flags(flags, **by_ranks); !fits.ok()) return fits;
    // torchrun and `ravnest launch` leave the choice to their ranks: one GPU is then one for all.
    (*by_ranks)->has_own_gpu =
        visible_devices == 1 && variables.has("CUDA_VISIBLE_DEVICES") && (*by_ranks)->launcher != kTorchrun.launcher;
    return *by_ranks;
  }
  if (variables.has("SLURM_JOB_ID")) {
    if (Status script = check_job_script(flags, variables); !script.ok()) return script;
  }
  if (variables.has("JOB_COMPLETION_INDEX"))
    return by_hand("Kubernetes", "JOB_COMPLETION_INDEX", flags, variables, visible_devices);
  const bool several = variables.has("MASTER_ADDR") || variables.has("NODE_RANK") || flags.nodes.value_or(1) > 1;
  return by_hand(several ? "MASTER_ADDR" : "one machine", "NODE_RANK", flags, variables, visible_devices);
}

}  // namespace ravnest::strategy
