// What nodes tell each other about a call, beside its passes: plain structs and their texts.
//
// All of it comes from other machines: decoding ends in a value or in kCorrupt.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/report/summary.h"

namespace ravnest::train {

// What a node is ready for. Settings are what the whole cluster has to be started with alike, by name.
struct Word {
  std::string call;  // "train", "evaluate", "pred"
  std::map<std::string, std::string> settings;
};
std::string encode(const Word& word);
Result<Word> decode_word(std::string_view text);

// Whether all nodes are ready for the same thing; the first is the root. A failure names the nodes that differ, in
// what, and what to do.
Status check_alike(const std::vector<Word>& words, const std::vector<std::string>& nodes);

// What every node has to do after the passes.
struct Task {
  bool save = false;
  std::string run;           // an id of the run's, for what is saved
  std::uint64_t epochs = 0;  // that are over
};
std::string encode(const Task& task);
Result<Task> decode_task(std::string_view text);

// What a node tells the root when it has done its task.
struct Account {
  report::NodeSummary summary;
  std::string unsaved;  // why its stage could not be saved; empty where it was, or nothing was to be saved
};
std::string encode(const Account& account);
Result<Account> decode_account(std::string_view text);

// One sentence for all nodes where some, by stage, could not save: who, why, and who could. Empty where all could.
std::string sentence_of_unsaved(const std::vector<Account>& accounts, const std::vector<std::string>& nodes);

// What the root tells everyone at the end.
struct Closing {
  std::optional<double> accuracy;  // in percent, of the last sweep
  bool more = false;               // the same call of the user's goes on
  std::string unsaved = {};        // sentence_of_unsaved
};
std::string encode(const Closing& closing);
Result<Closing> decode_closing(std::string_view text);

}  // namespace ravnest::train
