// NCCL's own C interface, found at run time: what is built without CUDA can use it as well.
//
// It is taken from the library that torch has loaded for its own use, so that a process has one NCCL. What we call of
// it is declared here as its documentation has it, with the numbers of the C header; the configuration is that of
// NCCL 2.17, by whose size and version later ones know which settings they were not given.
#pragma once

#include <array>
#include <climits>
#include <cstddef>
#include <filesystem>
#include <string>

#include "ravnest/base/status.h"

namespace ravnest::strategy {

namespace nccl {

struct Comm;  // one rank's end of a communicator

enum Outcome : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

enum Type : int { kInt8 = 0, kFloat16 = 6, kFloat32 = 7, kFloat64 = 8, kBfloat16 = 9 };
enum Reduction : int { kSum = 0 };

// By which the ranks of a communicator find each other. Rank 0 makes one and hands it to the others.
struct UniqueId {
  std::array<std::byte, 128> bytes{};
};

struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21700;
  int blocking = 0;
  int cga_cluster_size = INT_MIN;  // INT_MIN and nullptr: as NCCL thinks best
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
};

// What CUDA calls a stream.
using Stream = void*;

}  // namespace nccl

// The functions, each named as in C without the leading `nccl`. The library stays loaded for as long as the process.
struct NcclLibrary {
  std::string version = {};  // "2.28.9"
  nccl::Outcome (*get_version)(int* version) = nullptr;
  nccl::Outcome (*get_unique_id)(nccl::UniqueId* id) = nullptr;
  nccl::Outcome (*comm_init_rank_config)(nccl::Comm** comm, int ranks, nccl::UniqueId id, int rank,
                                         nccl::Config* config) = nullptr;
  nccl::Outcome (*comm_finalize)(nccl::Comm* comm) = nullptr;
  nccl::Outcome (*comm_destroy)(nccl::Comm* comm) = nullptr;
  nccl::Outcome (*comm_abort)(nccl::Comm* comm) = nullptr;
  nccl::Outcome (*comm_get_async_error)(nccl::Comm* comm, nccl::Outcome* outcome) = nullptr;
  const char* (*get_error_string)(nccl::Outcome outcome) = nullptr;
  const char* (*get_last_error)(nccl::Comm* comm) = nullptr;
  nccl::Outcome (*all_reduce)(const void* from, void* to, std::size_t count, nccl::Type type, nccl::Reduction reduction,
                              nccl::Comm* comm, nccl::Stream stream) = nullptr;
  nccl::Outcome (*reduce_scatter)(const void* from, void* to, std::size_t count_of_one, nccl::Type type,
                                  nccl::Reduction reduction, nccl::Comm* comm, nccl::Stream stream) = nullptr;
  nccl::Outcome (*all_gather)(const void* from, void* to, std::size_t count_of_one, nccl::Type type, nccl::Comm* comm,
                              nccl::Stream stream) = nullptr;
  nccl::Outcome (*broadcast)(const void* from, void* to, std::size_t count, nccl::Type type, int root, nccl::Comm* comm,
                             nccl::Stream stream) = nullptr;
};

// The functions of the library at `path`; with none, of the one that torch has loaded, or else that the system has.
// kNotFound where there is none, kUnsupported where it is too old or no NCCL.
Result<NcclLibrary> load_nccl(const std::filesystem::path& path = {});

// Whether NCCL is here, and if not, why. Says nothing about GPUs.
Status nccl_available();

// What went wrong in NCCL's words, for the middle of a sentence: "unhandled system error (Call to connect failed)".
std::string nccl_reason(const NcclLibrary& library, nccl::Outcome outcome, nccl::Comm* comm);

}  // namespace ravnest::strategy
