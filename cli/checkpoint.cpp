// `ravnest checkpoint`: what is in a run's folder of checkpoints, and what becomes of it.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "checkpoint_words.h"
#include "commands.h"
#include "own_environment.h"
#include "ranges.h"
#include "ravnest/base/folder.h"
#include "ravnest/base/words/units.h"
#include "ravnest/checkpoint/export.h"
#include "ravnest/checkpoint/store.h"
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

bool is_remote(const std::filesystem::path& place) { return object_store::is_s3_url(place.string()); }

std::unique_ptr<checkpoint::Store> open_place(const std::filesystem::path& place) {
  checkpoint::StoreOptions options{.holder = "command", .environment = own_environment()};
  if (auto line = progress_line("fetching")) options.on_fetched = std::move(line);
  return require(checkpoint::Store::open(place, std::move(options)));
}

// One of them, and the place in which it is.
struct Found {
  std::unique_ptr<checkpoint::Store> store;
  checkpoint::Checkpoint checkpoint;
};

Found find(const CheckpointOptions& options, const std::string& named) {
  const checkpoint::PlaceAndWhich at = checkpoint::place_and_which(options.folder, named);
  Found found{open_place(at.place), {}};
  found.checkpoint = require(found.store->find(at.which));
  return found;
}

Found the_one(const CheckpointOptions& options) {
  return find(options, options.which.empty() ? "newest" : options.which.front());
}

std::unique_ptr<checkpoint::Store> open_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!is_remote(folder) && !std::filesystem::is_directory(folder, ignored))
    require(not_found("there is no folder ", folder.string(), "; --folder names that of the run's checkpoints"));
  return open_place(folder);
}

void run_list(const CheckpointOptions& options) {
  const checkpoint::Listing listing = require(open_folder(options.folder)->list());
  std::cout << (options.json ? listing_json(listing) : listing_words(listing, options.folder));
}

void run_show(const CheckpointOptions& options) {
  const checkpoint::Checkpoint found = the_one(options).checkpoint;
  std::cout << (options.json ? checkpoint_json(found) : checkpoint_words(found));
}

// What object storage has, as far as it tells; then, unless --quick is given, all of it is fetched. A line for each
// flaw.
Status verify_remote(checkpoint::Store& store, const checkpoint::Checkpoint& found, const CheckpointOptions& options) {
  const std::set<std::string> parts(options.parts.begin(), options.parts.end());
  if (Status told = store.check(found, {.parts = parts, .progress = {}}); !told.ok() || options.quick) return told;
  const auto here = store.fetch(found, parts);
  if (!here.ok()) return here.status();
  return checkpoint::remove_checkpoint(*here);
}

// Whether all is well.
bool run_verify_one(checkpoint::Store& store, const checkpoint::Checkpoint& found, const CheckpointOptions& options) {
  const std::string name = found.folder.filename().string();
  checkpoint::VerifyOptions how{.parts = {options.parts.begin(), options.parts.end()},
                                .digests = !options.quick,
                                .progress = progress_line("verifying " + name)};
  require(check_part_names(found, options.parts));
  if (is_remote(found.folder)) {
    const Status well = verify_remote(store, found, options);
    end_progress_line();
    if (well.code() != Code::kCorrupt && well.code() != Code::kNotFound) require(well);
    const char* compared = options.quick ? "; compared: sizes, and digests that the server knows" : "; all was fetched";
    std::cout << name << ": "
              << (well.ok() ? text("all is well (", size_words(found, how.parts), compared, ")") : well.message())
              << '\n';
    return well.ok();
  }
  const std::vector<checkpoint::Flaw> flaws = require(checkpoint::verify(found, how));
  end_progress_line();
  for (const checkpoint::Flaw& flaw : flaws) std::cout << name << ": " << flaw.why.message() << '\n';
  if (flaws.empty()) std::cout << name << ": all is well (" << size_words(found, how.parts) << ")\n";
  return flaws.empty();
}

void run_verify(const CheckpointOptions& options) {
  bool well = true;
  if (options.all) {
    const auto store = open_folder(options.folder);
    const checkpoint::Listing listing = require(store->list());
    for (const checkpoint::Unreadable& each : listing.unreadable) std::cout << each.why.message() << '\n';
    well = listing.unreadable.empty();
    for (const checkpoint::Checkpoint& each : listing.complete) well = run_verify_one(*store, each, options) && well;
    if (listing.complete.empty() && well) require(not_found("there is no checkpoint in ", options.folder.string()));
  } else {
    const Found found = the_one(options);
    well = run_verify_one(*found.store, found.checkpoint, options);
  }
  if (!well) throw CLI::RuntimeError(1);
}

void run_remove(const CheckpointOptions& options) {
  std::vector<Found> going;
  for (const std::string& which : options.which) {
    going.push_back(find(options, which));
    const Found& last = going.back();
    const checkpoint::Listing listing = require(last.store->list());
    const bool is_newest =
        !listing.complete.empty() && listing.complete.front().manifest.updates == last.checkpoint.manifest.updates;
    if (is_newest && !options.force)
      require(invalid(last.checkpoint.folder.string(),
                      " is the newest checkpoint, from which the run would go on; --force removes "
                      "it all the same"));
  }
  for (const Found& each : going) {
    require(each.store->remove(each.checkpoint));
    std::cout << "removed " << each.checkpoint.folder.string() << '\n';
  }
}

std::filesystem::path with_ending(const std::filesystem::path& base, std::string_view ending) {
  std::filesystem::path path = base;
  path += ending;
  return path;
}

void run_export(const CheckpointOptions& options) {
  const Found place = the_one(options);
  checkpoint::Checkpoint found = place.checkpoint;
  const bool remote = is_remote(found.folder);
  const std::uint32_t copies = checkpoint::copies(found.manifest);
  if (options.copy >= copies)
    require(invalid("there is no copy ", options.copy, ": the checkpoint has ", copies,
                    copies == 1 ? " copy of the model, 0" : " copies of the model, counted from 0"));
  const std::set<std::string> parts = checkpoint::parts_of_copy(found.manifest, options.copy);
  if (remote) {
    auto here = place.store->fetch(found, parts);
    end_progress_line();
    found = require(std::move(here));
  }
  const Status well = checkpoint::verified(
      found,
      {.parts = parts, .digests = true, .progress = progress_line("verifying " + found.folder.filename().string())});
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
  if (remote) require(checkpoint::remove_checkpoint(found));
}

using Options = std::shared_ptr<CheckpointOptions>;

CLI::App* add_action(CLI::App& parent, const char* name, const char* description, const Options& options) {
  CLI::App* action = parent.add_subcommand(name, description);
  action->add_option("-f,--folder", options->folder, "The run's folder of checkpoints, or s3://BUCKET/FOLDER")
      ->capture_default_str();
  return action;
}

CLI::Option* add_which(CLI::App& action, const Options& options) {
  return action.add_option("WHICH", options->which,
                           "newest (the default), best, an update such as 120, or a checkpoint's folder or s3:// URL");
}

void add_list(CLI::App& parent, const Options& options) {
  CLI::App* list = add_action(parent, "list", "List the checkpoints of a run, the newest first", options);
  list->add_flag("--json", options->json, "As JSON");
  list->footer(
      "Examples:\n"
      "  ravnest checkpoint list\n"
      "  ravnest checkpoint list --folder /mnt/lab/run_7/checkpoints --json\n"
      "  ravnest checkpoint list --folder s3://lab/run_7");
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
