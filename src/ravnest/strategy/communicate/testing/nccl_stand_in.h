// A library with NCCL's C functions over the memory of the host, for where there is no GPU. Its ranks are threads of
// one process.
//
// An operation is in progress until every rank has begun it; the last one to come carries it out for all. A call while
// the one before is in progress, or one that does not fit those of the other ranks, is refused as wrong use. When a
// rank is aborted, the others find a remote error. Tests tell it what else is to go wrong, and read what was called.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "ravnest/strategy/communicate/nccl_library.h"

namespace ravnest::strategy::stand_in {

// What `load_nccl` takes.
std::filesystem::path path();

// Forgets all that was said and called.
void reset();
// What it says of its version.
void set_version(int version);
// From now on no operation ends, nor does a finalization, unless by an abort.
void hang();
// Communicators of that rank find this error when they ask.
void break_off(int rank, nccl::Outcome outcome);
// The next collective of that rank is answered so.
void refuse(int rank, nccl::Outcome outcome);

// What that rank called, but for questions: "init 2", "all_reduce float32 12", "finalize", "destroy", "abort".
std::vector<std::string> calls(int rank);
// How often any rank asked how it stands.
std::size_t questions();
// How often the answer was an error.
std::size_t errors_told();
// Communicators neither destroyed nor aborted.
std::size_t open_communicators();

}  // namespace ravnest::strategy::stand_in
