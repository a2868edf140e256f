// A file with one number per line that grows while a run goes on: losses.txt, val_accuracies.txt.
//
// The file of an earlier run is kept: `begin` renames losses.txt to losses.txt.1, an earlier losses.txt.1 to
// losses.txt.2 and so on, up to the first number that is free. So `.1` is always the run before this one, and nothing
// is ever overwritten. What is no regular file (/dev/null, a pipe) is written to as it is.
//
// A line is in the file when `append` returns, for everyone who reads it, and stays there when the process is killed.
// It is not forced to the disk: a machine that loses power may lose the last lines.
//
// Move-only; one thread at a time. Two runs that begin the same file at once: one of them may get kUnavailable.
#pragma once

#include <cstdint>
#include <filesystem>
#include <utility>

#include "ravnest/base/descriptor.h"
#include "ravnest/base/status.h"

namespace ravnest::report {

class RecordFile {
 public:
  // Keeps an earlier file and starts an empty one. kInvalid where the path is a folder, kNotFound where its folder does
  // not exist; after a failure of a later rename, the earlier files are all there, some under their new number.
  static Result<RecordFile> begin(std::filesystem::path path);

  // Goes on with the file of a run that is resumed, after so many lines: what was written behind them is cut off.
  // kInvalid, with nothing changed, where it has fewer; a file that is not there, or no regular one, is begun.
  static Result<RecordFile> go_on(std::filesystem::path path, std::uint64_t lines);

  // One line: the value with so many decimals, a point between, whatever the locale; or "nan", "inf", "-inf". After a
  // failure (a full disk, for instance) nothing of the line is in the file, and the next call tries anew.
  Status append(double value, int decimals);

  const std::filesystem::path& path() const { return path_; }

 private:
  RecordFile(std::filesystem::path path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}

  std::filesystem::path path_;
  Descriptor file_;
};

}  // namespace ravnest::report
