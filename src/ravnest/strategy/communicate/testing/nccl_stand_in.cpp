#include "ravnest/strategy/communicate/testing/nccl_stand_in.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "ravnest/base/mutex.h"
#include "ravnest/base/text.h"

// NOLINTBEGIN(readability-identifier-naming): the names of C

namespace ravnest::strategy {
namespace {

using nccl::Outcome;

struct Call {
  std::string name;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::size_t count = 0;
  nccl::Type type = nccl::kInt8;
  int root = 0;
};

struct World {
  std::vector<nccl::Comm*> members;  // by rank; null: not here yet, or gone
};

}  // namespace

struct nccl::Comm {
  World* world = nullptr;
  int rank = 0;
  Outcome state = kInProgress;
  bool untold = false;  // an operation has ended well, and it has not been asked for since
  bool lost = false;    // another rank was aborted
  std::optional<Call> call = std::nullopt;
};

namespace {

struct StandIn {
  Mutex mutex;
  int version RAVNEST_GUARDED_BY(mutex) = 22809;
  bool hangs RAVNEST_GUARDED_BY(mutex) = false;
  unsigned char last_id RAVNEST_GUARDED_BY(mutex) = 0;
  std::map<unsigned char, World> worlds RAVNEST_GUARDED_BY(mutex);  // with all that is in them
  std::map<int, Outcome> broken RAVNEST_GUARDED_BY(mutex);
  std::map<int, Outcome> refusals RAVNEST_GUARDED_BY(mutex);
  std::map<int, std::vector<std::string>> calls RAVNEST_GUARDED_BY(mutex);
  std::size_t questions RAVNEST_GUARDED_BY(mutex) = 0;
  std::size_t errors_told RAVNEST_GUARDED_BY(mutex) = 0;
};

// The library's one state, as C's functions have it.
StandIn& all() {
  static StandIn state;
  return state;
}

std::size_t size_of(nccl::Type type) {
  switch (type) {
    case nccl::kInt8: return 1;
    case nccl::kFloat16:
    case nccl::kBfloat16: return 2;
    case nccl::kFloat32: return 4;
    case nccl::kFloat64: return 8;
  }
  return 0;
}

const char* name_of(nccl::Type type) {
  switch (type) {
    case nccl::kInt8: return "int8";
    case nccl::kFloat16: return "float16";
    case nccl::kBfloat16: return "bfloat16";
    case nccl::kFloat32: return "float32";
    case nccl::kFloat64: return "float64";
  }
  return "";
}

// Element `i` of what all members gave, added up.
template <class T>
std::vector<std::byte> sums(const World& world, std::size_t count) {
  std::vector<T> totals(count);
  for (const nccl::Comm* member : world.members) {
    for (std::size_t i = 0; i < count; ++i) {
      T value;
      std::memcpy(&value, member->call->from + i * sizeof(T), sizeof(T));
      totals[i] += value;
    }
  }
  std::vector<std::byte> bytes(count * sizeof(T));
  if (count > 0) std::memcpy(bytes.data(), totals.data(), bytes.size());
  return bytes;
}

std::vector<std::byte> sums(const World& world, std::size_t count, nccl::Type type) {
  return type == nccl::kFloat64 ? sums<double>(world, count) : sums<float>(world, count);
}

void move_bytes(const std::byte* from, std::byte* to, std::size_t bytes) {
  if (bytes > 0) std::memmove(to, from, bytes);
}

void carry_out(World& world) {
  const Call& first = *world.members[0]->call;
  const std::size_t bytes = first.count * size_of(first.type);
  const std::size_t ranks = world.members.size();
  std::vector<std::byte> result;
  if (first.name == "all_reduce") result = sums(world, first.count, first.type);
  if (first.name == "reduce_scatter") result = sums(world, first.count * ranks, first.type);
  if (first.name == "broadcast")
    result.assign(world.members[first.root]->call->from, world.members[first.root]->call->from + bytes);
  if (first.name == "all_gather") {
    for (const nccl::Comm* member : world.members) {
      result.insert(result.end(), member->call->from, member->call->from + bytes);
    }
  }
  for (nccl::Comm* member : world.members) {
    const std::size_t begin = first.name == "reduce_scatter" ? member->rank * bytes : 0;
    const std::size_t size = first.name == "all_gather" ? ranks * bytes : bytes;
    move_bytes(result.data() + begin, member->call->to, size);
  }
}

bool same(const Call& a, const Call& b) {
  return a.name == b.name && a.count == b.count && a.type == b.type && a.root == b.root;
}

Outcome collective(nccl::Comm* comm, Call call) {
  StandIn& state = all();
  const MutexLock lock(state.mutex);
  if (comm == nullptr) return nccl::kInvalidArgument;
  state.calls[comm->rank].push_back(text(call.name, " ", name_of(call.type), " ", call.count));
  if (const auto refusal = state.refusals.extract(comm->rank)) return refusal.mapped();
  if (comm->state != nccl::kSuccess) return nccl::kInvalidUsage;
  comm->state = nccl::kInProgress;
  comm->call = std::move(call);
  std::vector<nccl::Comm*>& members = comm->world->members;
  const bool all_here = std::ranges::all_of(members, [](const nccl::Comm* m) { return m != nullptr && m->call; });
  if (!all_here || state.hangs) return nccl::kInProgress;
  const bool fit = std::ranges::all_of(members, [&](const nccl::Comm* m) { return same(*m->call, *comm->call); });
  if (fit) carry_out(*comm->world);
  for (nccl::Comm* member : members) {
    member->state = fit ? nccl::kSuccess : nccl::kInvalidUsage;
    member->untold = fit && member != comm;
    member->call.reset();
  }
  return comm->state;
}

Outcome leave(nccl::Comm* comm, const char* how, bool peers_notice) {
  StandIn& state = all();
  const MutexLock lock(state.mutex);
  if (comm == nullptr) return nccl::kInvalidArgument;
  state.calls[comm->rank].push_back(how);
  comm->world->members[comm->rank] = nullptr;
  for (nccl::Comm* member : comm->world->members) {
    if (member != nullptr && peers_notice) member->lost = true;
  }
  delete comm;
  return nccl::kSuccess;
}

const std::byte* bytes(const void* data) { return static_cast<const std::byte*>(data); }
std::byte* bytes(void* data) { return static_cast<std::byte*>(data); }

}  // namespace

extern "C" {

Outcome ncclGetVersion(int* version) {
  const MutexLock lock(all().mutex);
  *version = all().version;
  return nccl::kSuccess;
}

Outcome ncclGetUniqueId(nccl::UniqueId* id) {
  const MutexLock lock(all().mutex);
  id->bytes.fill(std::byte{0x5a});
  id->bytes.back() = std::byte{++all().last_id};
  return nccl::kSuccess;
}

Outcome ncclCommInitRankConfig(nccl::Comm** comm, int ranks, nccl::UniqueId id, int rank, nccl::Config* config) {
  StandIn& state = all();
  const MutexLock lock(state.mutex);
  if (config->size != 40 || config->magic != 0xcafebeef || config->blocking != 0) return nccl::kInvalidArgument;
  if (id.bytes.front() != std::byte{0x5a}) return nccl::kInvalidArgument;
  state.calls[rank].push_back(text("init ", ranks));
  World& world = state.worlds[std::to_integer<unsigned char>(id.bytes.back())];
  world.members.resize(ranks);
  if (world.members[rank] != nullptr) return nccl::kInvalidUsage;
  *comm = world.members[rank] = new nccl::Comm{.world = &world, .rank = rank};
  if (std::ranges::count(world.members, nullptr) > 0 || state.hangs) return nccl::kInProgress;
  for (nccl::Comm* member : world.members) member->state = nccl::kSuccess;
  return nccl::kSuccess;
}

Outcome ncclCommFinalize(nccl::Comm* comm) {
  StandIn& state = all();
  const MutexLock lock(state.mutex);
  state.calls[comm->rank].emplace_back("finalize");
  if (comm->state != nccl::kSuccess) return nccl::kInvalidUsage;
  if (!state.hangs) return nccl::kSuccess;
  comm->state = nccl::kInProgress;
  return nccl::kInProgress;
}

Outcome ncclCommDestroy(nccl::Comm* comm) { return leave(comm, "destroy", false); }
Outcome ncclCommAbort(nccl::Comm* comm) { return leave(comm, "abort", true); }

Outcome ncclCommGetAsyncError(nccl::Comm* comm, Outcome* outcome) {
  StandIn& state = all();
  const MutexLock lock(state.mutex);
  ++state.questions;
  const auto broken = state.broken.find(comm->rank);
  *outcome = comm->state;
  const bool good = comm->state == nccl::kSuccess || comm->state == nccl::kInProgress;
  const bool untold = std::exchange(comm->untold, false);
  if (good && comm->lost && !untold) *outcome = nccl::kRemoteError;
  if (broken != state.broken.end()) *outcome = broken->second;
  if (*outcome != nccl::kSuccess && *outcome != nccl::kInProgress) ++state.errors_told;
  return nccl::kSuccess;
}

const char* ncclGetErrorString(Outcome outcome) {
  switch (outcome) {
    case nccl::kRemoteError: return "remote process exited or there was a network error";
    case nccl::kSystemError: return "unhandled system error";
    case nccl::kInvalidUsage: return "invalid usage";
    default: return "another error";
  }
}

const char* ncclGetLastError(nccl::Comm* /*comm*/) { return "the stand-in\nsays so\n"; }

Outcome ncclAllReduce(const void* from, void* to, std::size_t count, nccl::Type type, nccl::Reduction, nccl::Comm* comm,
                      nccl::Stream) {
  return collective(comm, {"all_reduce", bytes(from), bytes(to), count, type});
}

Outcome ncclReduceScatter(const void* from, void* to, std::size_t count, nccl::Type type, nccl::Reduction,
                          nccl::Comm* comm, nccl::Stream) {
  return collective(comm, {"reduce_scatter", bytes(from), bytes(to), count, type});
}

Outcome ncclAllGather(const void* from, void* to, std::size_t count, nccl::Type type, nccl::Comm* comm, nccl::Stream) {
  return collective(comm, {"all_gather", bytes(from), bytes(to), count, type});
}

Outcome ncclBroadcast(const void* from, void* to, std::size_t count, nccl::Type type, int root, nccl::Comm* comm,
                      nccl::Stream) {
  return collective(comm, {"broadcast", bytes(from), bytes(to), count, type, root});
}

}  // extern "C"

// NOLINTEND(readability-identifier-naming)

namespace stand_in {

std::filesystem::path path() {
  Dl_info info{};
  ::dladdr(reinterpret_cast<const void*>(&ncclGetVersion), &info);
  return info.dli_fname;
}

void reset() {
  StandIn& state = all();
  const MutexLock lock(state.mutex);
  state.version = 22809;
  state.hangs = false;
  state.broken.clear();
  state.refusals.clear();
  state.calls.clear();
  state.questions = 0;
  state.errors_told = 0;
}

void set_version(int version) {
  const MutexLock lock(all().mutex);
  all().version = version;
}

void hang() {
  const MutexLock lock(all().mutex);
  all().hangs = true;
}

void break_off(int rank, nccl::Outcome outcome) {
  const MutexLock lock(all().mutex);
  all().broken[rank] = outcome;
}

void refuse(int rank, nccl::Outcome outcome) {
  const MutexLock lock(all().mutex);
  all().refusals[rank] = outcome;
}

std::vector<std::string> calls(int rank) {
  const MutexLock lock(all().mutex);
  return all().calls[rank];
}

std::size_t questions() {
  const MutexLock lock(all().mutex);
  return all().questions;
}

std::size_t errors_told() {
  const MutexLock lock(all().mutex);
  return all().errors_told;
}

std::size_t open_communicators() {
  const MutexLock lock(all().mutex);
  std::size_t open = 0;
  for (const auto& [id, world] : all().worlds) {
    open += world.members.size() - std::ranges::count(world.members, nullptr);
  }
  return open;
}

}  // namespace stand_in
}  // namespace ravnest::strategy
