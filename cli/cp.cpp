// `ravnest cp`: files to object storage and back.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include "progress.h"
#include "ravnest/base/printable.h"
#include "ravnest/base/words/units.h"
#include "ravnest/object_store/copy.h"
#include "store_options.h"

namespace ravnest::cli {
namespace {

struct CopyFlags {
  std::string from;
  std::string to;
  bool recursive = false;
  StoreFlags store;
};

std::string files(std::size_t count) { return count == 1 ? "1 file" : text(count, " files"); }

// Progress over all files of a copy, on one line that is written ten times a second at most.
class CopyLine {
 public:
  CopyLine(const Interruptible& line, std::uint64_t all) : line_(line), all_(all), begun_(clock_.now()) {}

  object_store::Progress of(std::uint64_t before) {
    return [this, before](std::uint64_t done, std::uint64_t /*all*/) { return told(before + done); };
  }
  double seconds() const { return seconds_between(begun_, clock_.now()); }

 private:
  bool told(std::uint64_t done) {
    const TimePoint now = clock_.now();
    if (now - last_ < std::chrono::milliseconds(100)) return Interruptible::may_go_on();
    last_ = now;
    const double passed = seconds_between(begun_, now);
    const double share = all_ == 0 ? 1 : static_cast<double>(done) / static_cast<double>(all_);
    const std::string of_all = text(" of ", quantity(static_cast<double>(all_), "B"), ", ",
                                    quantity(static_cast<double>(done) / std::max(passed, 0.1), "B/s"));
    return line_.report(share, of_all);
  }

  const SystemClock clock_;
  const Interruptible& line_;
  const std::uint64_t all_;
  const TimePoint begun_;
  TimePoint last_{};
};

void run_cp(const CopyFlags& flags) {
  const auto store = open_store(flags.store);
  const Interruptible line("copying " + printable(flags.from));
  const std::string advice = "; the same command goes on where it was";
  const auto items =
      object_store::plan_copy(*store, flags.from, flags.to, flags.recursive, [] { return Interruptible::may_go_on(); });
  line.finish(false, advice);
  require(items.status());
  std::uint64_t all = 0;
  for (const object_store::CopyItem& item : *items) all += item.size;

  CopyLine shown(line, all);
  std::uint64_t done = 0;
  for (const object_store::CopyItem& item : *items) {
    const Status copied = object_store::copy_item(*store, item, std::filesystem::temp_directory_path(), shown.of(done));
    line.finish(copied.ok() && &item == &items->back(), advice);
    require(copied.code() == Code::kUnavailable || copied.code() == Code::kDeadline
                ? Status(copied.code(), copied.message() + advice)
                : copied);
    done += item.size;
  }
  const double seconds = shown.seconds();
  std::cout << "copied " << files(items->size()) << ", " << quantity(static_cast<double>(all), "B") << ", in "
            << duration(seconds) << " to " << printable(items->size() == 1 ? items->front().to : flags.to) << std::endl;
}

}  // namespace

void add_cp(CLI::App& app) {
  CLI::App* command = app.add_subcommand("cp", "Copy files to and from object storage (S3)");
  const auto flags = std::make_shared<CopyFlags>();
  command->add_option("from", flags->from, "A file, a folder, or s3://BUCKET/KEY")->required();
  command->add_option("to", flags->to, "Where to; one of both begins with s3://")->required();
  command->add_flag("-r,--recursive", flags->recursive, "All that is below; a / at the end of FROM says the same");
  add_store_flags(*command, flags->store);
  command->footer(
      "Keys, region and endpoint come from where AWS's own tools have them: AWS_ACCESS_KEY_ID, AWS_PROFILE,\n"
      "~/.aws, AWS_REGION, AWS_ENDPOINT_URL (docs/object_storage.md). Each file is verified, and there whole or not "
      "at\n"
      "all. What was interrupted goes on by the same command.\n"
      "\n"
      "Examples:\n"
      "  ravnest cp trained/trained_state_dict.pt s3://lab/run_7/\n"
      "  ravnest cp s3://lab/run_7/trained_state_dict.pt .\n"
      "  ravnest cp -r node_data s3://lab/run_7/node_data\n"
      "  ravnest cp s3://lab/run_7/ run_7                  all objects below run_7/");
  command->callback([flags] { run_cp(*flags); });
}

}  // namespace ravnest::cli
