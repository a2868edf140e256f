// Whether a checkpoint's files are those that were written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/checkpoint/folder.h"

namespace ravnest::checkpoint {

struct VerifyOptions {
  std::set<std::string> parts;  // by name, those that have to be here; empty: all of the manifest's
  bool digests = true;          // false: sizes and headers alone, which takes no time
  // Told after every few megabytes; false ends it: kCancelled.
  std::function<bool(std::uint64_t done, std::uint64_t all)> progress;
};

// One thing that is wrong with one file.
struct Flaw {
  std::string file;  // in the checkpoint's folder
  Status why;        // kNotFound: not there; kCorrupt: torn, with what should be and what is; else as read
};

// Every part is there, has its size and its digest, and is a part of this checkpoint; the index says what the manifest
// does. All flaws, in the order of the files; none: all is well. Fails only where it was cancelled.
Result<std::vector<Flaw>> verify(const Checkpoint& checkpoint, const VerifyOptions& options = {});
// The same as one failure: a line for each flaw.
Status verified(const Checkpoint& checkpoint, const VerifyOptions& options = {});

// All of the folder that are verified by the options, the newest first: what nodes tell each other before they agree on
// one. What is wrong with the others goes to `passed_over`, unless that is null.
Result<std::vector<Checkpoint>> readable_checkpoints(const std::filesystem::path& root,
                                                     const VerifyOptions& options = {},
                                                     std::vector<Unreadable>* passed_over = nullptr);

struct Readable {
  Checkpoint checkpoint;
  std::vector<Unreadable> passed_over;  // newer ones, and what is wrong with them
};
// The newest checkpoint of the folder that is verified by the options. kNotFound where there is none, with what is
// wrong with those that are there.
Result<Readable> newest_readable(const std::filesystem::path& root, const VerifyOptions& options = {});

}  // namespace ravnest::checkpoint
