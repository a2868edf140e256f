// `ravnest checkpoint`: what is in a run's folder of checkpoints, and what becomes of it.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint_words.h"
#include "commands.h"
#include "ranges.h"
#include "ravnest/base/folder.h"
#include "ravnest/base/words/units.h"
#include "ravnest/checkpoint/export.h"
#include "ravnest/checkpoint/verify.h"

namespace ravnest::cli {
namespace {

struct CheckpointOptions {
  std::filesystem::path folder = "checkpoints";
  std::vector<std::string> which;
  bool json = false;
  bool all = false;
  bool quick = false;
  bool force = false;
  std::vector<std::string> parts;
  std::filesystem::path output = "model";
  bool safetensors = false;
  bool optimizer = false;
  bool frozen = false;
  std::uint32_t copy = 0;
};

checkpoint::Checkpoint the_one(const CheckpointOptions& options) {
  return require(checkpoint::find_checkpoint(options.folder, options.which.empty() ? "newest" : options.which.front()));
}

void require_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    require(not_found("there is no folder ", folder.string(), "; --folder names that of the run's checkpoints"));
}

void run_list(const CheckpointOptions& options) {
  require_folder(options.folder);
  const checkpoint::Listing listing = require(checkpoint::list_checkpoints(options.folder));
  std::cout << (options.json ? listing_json(listing) : listing_words(listing, options.folder));
}

void run_show(const CheckpointOptions& options) {
  const checkpoint::Checkpoint found = the_one(options);
  std::cout << (options.json ? checkpoint_json(found) : checkpoint_words(found));
}

// A line of standard error that is written over, where that is a terminal.
std::function<bool(std::uint64_t, std::uint64_t)> progress_line(const std::string& action) {
  if (::isatty(STDERR_FILENO) != 1) return {};
  return [action, shown = -1](std::uint64_t done, std::uint64_t all) mutable {
    const int percent = all == 0 ? 100 : static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(all));
    if (percent == shown) return true;
    shown = percent;
    std::cerr << "\r" << action << ": " << percent << " % of " << quantity(static_cast<double>(all), "B") << std::flush;
    return true;
  };
}

void end_progress_line() {
  if (::isatty(STDERR_FILENO) == 1) std::cerr << "\r\x1b[K" << std::flush;
}

// Whether all is well.
bool run_verify_one(const checkpoint::Checkpoint& found, const CheckpointOptions& options) {
  const std::string name = found.folder.filename().string();
  checkpoint::VerifyOptions how{.parts = {options.parts.begin(), options.parts.end()},
                                .digests = !options.quick,
                                .progress = progress_line("verifying " + name)};
  require(check_part_names(found, options.parts));
  const std::vector<checkpoint::Flaw> flaws = require(checkpoint::verify(found, how));
  end_progress_line();
  for (const checkpoint::Flaw& flaw : flaws) std::cout << name << ": " << flaw.why.message() << '\n';
  if (flaws.empty()) std::cout << name << ": all is well (" << size_words(found, how.parts) << ")\n";
  return flaws.empty();
}

void run_verify(const CheckpointOptions& options) {
  bool well = true;
  if (options.all) {
    require_folder(options.folder);
    const checkpoint::Listing listing = require(checkpoint::list_checkpoints(options.folder));
    for (const checkpoint::Unreadable& each : listing.unreadable) std::cout << each.why.message() << '\n';
    well = listing.unreadable.empty();
    for (const checkpoint::Checkpoint& each : listing.complete) well = run_verify_one(each, options) && well;
    if (listing.complete.empty() && well) require(not_found("there is no checkpoint in ", options.folder.string()));
  } else {
    well = run_verify_one(the_one(options), options);
  }
  if (!well) throw CLI::RuntimeError(1);
}

void run_remove(const CheckpointOptions& options) {
  const checkpoint::Listing listing = require(checkpoint::list_checkpoints(options.folder));
  std::vector<checkpoint::Checkpoint> going;
  for (const std::string& which : options.which) {
    going.push_back(require(checkpoint::find_checkpoint(options.folder, which)));
    const checkpoint::Checkpoint& last = going.back();
    const bool is_newest =
        !listing.complete.empty() && listing.complete.front().manifest.updates == last.manifest.updates;
    if (is_newest && !options.force)
      require(invalid(last.folder.string(),
                      " is the newest checkpoint, from which the run would go on; --force removes "
                      "it all the same"));
  }
  for (const checkpoint::Checkpoint& each : going) {
    require(checkpoint::remove_checkpoint(each));
    std::cout << "removed " << each.folder.string() << '\n';
  }
}

std::filesystem::path with_ending(const std::filesystem::path& base, std::string_view ending) {
  std::filesystem::path path = base;
  path += ending;
  return path;
}

void run_export(const CheckpointOptions& options) {
  const checkpoint::Checkpoint found = the_one(options);
  const std::uint32_t copies = checkpoint::copies(found.manifest);
  if (options.copy >= copies)
    require(invalid("there is no copy ", options.copy, ": the checkpoint has ", copies,
                    copies == 1 ? " copy of the model, 0" : " copies of the model, counted from 0"));
  const Status well =
      checkpoint::verified(found, {.parts = parts_of_copy(found, options.copy),
                                   .digests = true,
                                   .progress = progress_line("verifying " + found.folder.filename().string())});
  end_progress_line();
  require(well);
  const checkpoint::Whole whole = require(checkpoint::read_whole(found, options.copy));
  require(make_folders(options.output.parent_path()));
  const std::filesystem::path weights = with_ending(options.output, ".pt");
  require(checkpoint::export_state_dict(whole, weights));
  std::cout << "wrote " << weights.string() << " (" << whole.weights.size() << " tensors, update " << whole.updates
            << "); load it with model.load_state_dict(torch.load('" << weights.string() << "', weights_only=True))\n";
  if (options.safetensors) {
    const std::filesystem::path path = with_ending(options.output, ".safetensors");
    require(checkpoint::export_safetensors(whole, path));
    std::cout << "wrote " << path.string() << '\n';
  }
  if (options.optimizer) {
    const std::filesystem::path path = with_ending(options.output, "_optimizer.pt");
    require(checkpoint::export_optimizer(
        whole, path, options.frozen ? checkpoint::Frozen::kIncluded : checkpoint::Frozen::kLeftOut));
    std::cout << "wrote " << path.string() << " (" << whole.optimizer.name
              << "); load it with optimizer.load_state_dict(torch.load('" << path.string()
              << "', weights_only=True))\n";
  }
}

using Options = std::shared_ptr<CheckpointOptions>;

CLI::App* add_action(CLI::App& parent, const char* name, const char* description, const Options& options) {
  CLI::App* action = parent.add_subcommand(name, description);
  action->add_option("-f,--folder", options->folder, "The run's folder of checkpoints")->capture_default_str();
  return action;
}

CLI::Option* add_which(CLI::App& action, const Options& options) {
  return action.add_option("WHICH", options->which,
                           "newest (the default), best, an update such as 120, or a checkpoint's folder");
}

void add_list(CLI::App& parent, const Options& options) {
  CLI::App* list = add_action(parent, "list", "List the checkpoints of a run, the newest first", options);
  list->add_flag("--json", options->json, "As JSON");
  list->footer(
      "Examples:\n"
      "  ravnest checkpoint list\n"
      "  ravnest checkpoint list --folder /mnt/lab/run_7/checkpoints --json");
  list->callback([options] { run_list(*options); });
}

void add_show(CLI::App& parent, const Options& options) {
  CLI::App* show = add_action(parent, "show", "Show what a checkpoint holds", options);
  add_which(*show, options)->expected(0, 1);
  show->add_flag("--json", options->json, "The whole manifest, as JSON");
  show->footer(
      "Examples:\n"
      "  ravnest checkpoint show             the newest one\n"
      "  ravnest checkpoint show best\n"
      "  ravnest checkpoint show 120 --json");
  show->callback([options] { run_show(*options); });
}

void add_verify(CLI::App& parent, const Options& options) {
  CLI::App* verify =
      add_action(parent, "verify", "Check that a checkpoint's files are those that were written", options);
  CLI::Option* which = add_which(*verify, options)->expected(0, 1);
  verify->add_flag("--all", options->all, "All of the folder")->excludes(which);
  verify->add_flag("--quick", options->quick, "Sizes and headers alone, no digests");
  verify->add_option("--part", options->parts, "Only this part, such as stage_1; may be given several times")
      ->take_all();
  verify->footer(
      "The exit status is 1 where a file is missing or not what was written. Machines that share no folder have their\n"
      "own parts alone: --part names them.\n"
      "\n"
      "Examples:\n"
      "  ravnest checkpoint verify\n"
      "  ravnest checkpoint verify --all\n"
      "  ravnest checkpoint verify 120 --part stage_1");
  verify->callback([options] { run_verify(*options); });
}

void add_remove(CLI::App& parent, const Options& options) {
  CLI::App* remove = add_action(parent, "remove", "Remove checkpoints", options);
  add_which(*remove, options)->required();
  remove->add_flag("--force", options->force, "Even the newest one");
  remove->footer(
      "Asks nothing. The newest one stays without --force. Files that are no part of the checkpoint stay, and their\n"
      "folder with them.\n"
      "\n"
      "Examples:\n"
      "  ravnest checkpoint remove 80 120\n"
      "  ravnest checkpoint remove newest --force");
  remove->callback([options] { run_remove(*options); });
}

void add_export(CLI::App& parent, const Options& options) {
  CLI::App* action = add_action(parent, "export", "Write a checkpoint's model as PyTorch loads it", options);
  add_which(*action, options)->expected(0, 1);
  action->add_option("-o,--output", options->output, "Where to: a path without its ending")->capture_default_str();
  action->add_flag("--safetensors", options->safetensors, "Write the model as OUTPUT.safetensors too");
  CLI::Option* optimizer =
      action->add_flag("--optimizer", options->optimizer, "Write the optimizer's state as OUTPUT_optimizer.pt too");
  action
      ->add_flag("--with-frozen", options->frozen,
                 "The optimizer was given frozen parameters too: torch counts them, though it keeps nothing for them")
      ->needs(optimizer);
  action->add_option("--copy", options->copy, "Of which cluster, where there were several")
      ->capture_default_str()
      ->check(whole<std::uint32_t>(0));
  action->footer(
      "Writes OUTPUT.pt, with the keys of the model's own state dict. All files are verified before.\n"
      "\n"
      "Examples:\n"
      "  ravnest checkpoint export                       writes model.pt of the newest one\n"
      "  ravnest checkpoint export best -o best_model --safetensors\n"
      "  ravnest checkpoint export 120 --optimizer       and model_optimizer.pt, for torch.optim");
  action->callback([options] { run_export(*options); });
}

}  // namespace

void add_checkpoint(CLI::App& app) {
  CLI::App* command = app.add_subcommand("checkpoint", "List, show, verify, remove and export a run's checkpoints");
  command->require_subcommand(0, 1);
  command->callback([command] {
    if (!command->get_subcommands().empty()) return;
    std::cout << command->help();
    throw CLI::RuntimeError(1);
  });
  const auto options = std::make_shared<CheckpointOptions>();
  add_list(*command, options);
  add_show(*command, options);
  add_verify(*command, options);
  add_remove(*command, options);
  add_export(*command, options);
  command->footer(
      "A checkpoint is a folder such as checkpoints/update_000000120. docs/checkpoints.md has the format.\n"
      "\n"
      "Examples:\n"
      "  ravnest checkpoint list\n"
      "  ravnest checkpoint show best\n"
      "  ravnest checkpoint verify --all\n"
      "  ravnest checkpoint remove 80\n"
      "  ravnest checkpoint export --optimizer");
}

}  // namespace ravnest::cli
