#include "ravnest/train/node/run_choice.h"

#include <algorithm>
#include <variant>

#include "ravnest/base/printable.h"
#include "ravnest/base/text.h"

namespace ravnest::train {
namespace {

using wire::CheckpointRun;
using wire::ReadableCheckpoint;
using wire::RunChosen;
using wire::RunOffer;

bool same(const ReadableCheckpoint& a, const ReadableCheckpoint& b) { return a.run == b.run && a.updates == b.updates; }

bool has(const ReadableBy& one, const ReadableCheckpoint& wanted) {
  return std::ranges::any_of(one.checkpoints, [&](const ReadableCheckpoint& each) { return same(each, wanted); });
}

// With the runs, where they are not all of one.
std::string in_words(const std::vector<ReadableCheckpoint>& checkpoints, bool runs) {
  if (checkpoints.empty()) return "none";
  std::vector<std::string> updates;
  for (const ReadableCheckpoint& each : checkpoints)
    updates.push_back(text(each.updates, runs ? text(" of run ", printable(each.run)) : ""));
  return text(updates.size() == 1 ? "that of update " : "those of updates ", join(updates));
}

bool are_of_several_runs(const std::vector<ReadableBy>& all) {
  const ReadableCheckpoint* first = nullptr;
  for (const ReadableBy& one : all) {
    for (const ReadableCheckpoint& each : one.checkpoints) {
      if (first != nullptr && first->run != each.run) return true;
      first = &each;
    }
  }
  return false;
}

std::string as_told(const std::string& wanted) {
  return wanted.empty() ? "to begin anew" : text("to go on from ", printable(wanted));
}

}  // namespace

Result<std::vector<ReadableCheckpoint>> readable_by_all(const std::vector<ReadableBy>& all) {
  std::vector<ReadableCheckpoint> common;
  for (const ReadableCheckpoint& each : all.front().checkpoints) {
    if (std::ranges::all_of(all, [&](const ReadableBy& one) { return has(one, each); })) common.push_back(each);
  }
  const bool any = std::ranges::any_of(all, [](const ReadableBy& one) { return !one.checkpoints.empty(); });
  if (!common.empty() || !any) return common;
  std::vector<std::string> who;
  for (const ReadableBy& one : all)
    who.push_back(text(one.who, " can go on from ", in_words(one.checkpoints, are_of_several_runs(all))));
  return not_found("no checkpoint can be read by all nodes: ", join(who, "; "),
                   ". Copy what is missing to those nodes' folders: their parts, or, where a kill came before they had "
                   "these, manifest.json and model.safetensors.index.json from a node that has them; or begin anew "
                   "without resume, in other folders");
}

std::optional<ReadableCheckpoint> preferred(const std::vector<ReadableCheckpoint>& checkpoints,
                                            const std::string& wanted) {
  if (checkpoints.empty()) return std::nullopt;
  const auto lesser = [&](const ReadableCheckpoint& a, const ReadableCheckpoint& b) {
    if (wanted == "best" && a.accuracy != b.accuracy) return a.accuracy < b.accuracy;
    return a.updates < b.updates;
  };
  return *std::ranges::max_element(checkpoints, lesser);
}

RunChoice::RunChoice(int self, std::vector<std::string> roots, std::string new_run)
    : self_(self), roots_(std::move(roots)), new_run_(std::move(new_run)), presence_(roots_.size()) {}

void RunChoice::offer(RunOffer offer) {
  for (int other = 0; other < clusters(); ++other) {
    if (other != self_) sends_.emplace_back(other, offer);
  }
  offers_.insert_or_assign(self_, std::move(offer));
  decide();
}

void RunChoice::fail(std::string failure) {
  if (!chosen_) take({.run = {}, .clusters = {}, .failure = std::move(failure)});
}

Status RunChoice::on_message(int from, const wire::Checkpointing& message) {
  if (const auto* offer = std::get_if<RunOffer>(&message)) {
    offers_.insert_or_assign(from, *offer);
    // Another process of the cluster, perhaps: what was chosen before holds for it, too.
    if (chosen_) answer(from);
    decide();
  } else if (const auto* chosen = std::get_if<RunChosen>(&message)) {
    // Who trains already is not stopped by a cluster that can't.
    if (!chosen_ && offers_.contains(self_)) take(*chosen);
  } else {
    return invalid(roots_[static_cast<std::size_t>(from)],
                   " speaks of parts and manifests where clusters choose what their run goes on from");
  }
  return {};
}

void RunChoice::look(const std::vector<Presence>& presence, bool patient) {
  // Of one that came anew since, what it said before counts no more.
  for (int other = 0; other < clusters(); ++other) {
    if (other != self_ && presence[static_cast<std::size_t>(other)] == Presence::kGone) offers_.erase(other);
  }
  presence_ = presence;
  patient_ = patient;
  decide();
}

void RunChoice::gone(int cluster) {
  offers_.erase(cluster);
  if (chosen_) std::erase(chosen_->clusters, static_cast<std::uint32_t>(cluster));
  if (presence_[static_cast<std::size_t>(cluster)] == Presence::kThere)
    presence_[static_cast<std::size_t>(cluster)] = Presence::kGone;
  decide();
}

ReadableBy RunChoice::named(int cluster) const {
  return {text("cluster ", cluster, " (", roots_[static_cast<std::size_t>(cluster)], ")"),
          offers_.at(cluster).checkpoints};
}

int RunChoice::decider() const {
  for (int other = 0; other < self_; ++other) {
    // Who has made an offer is there, though one may not have looked since.
    if (presence_[static_cast<std::size_t>(other)] == Presence::kThere || offers_.contains(other)) return other;
  }
  return self_;
}

std::vector<int> RunChoice::waiting_for() const {
  std::vector<int> waiting;
  for (int other = 0; other < clusters(); ++other) {
    const Presence presence = presence_[static_cast<std::size_t>(other)];
    if (other == self_ || offers_.contains(other) || presence == Presence::kGone) continue;
    if (presence == Presence::kThere || patient_) waiting.push_back(other);
  }
  return waiting;
}

void RunChoice::decide() {
  if (chosen_ || !offers_.contains(self_) || decider() != self_ || !waiting_for().empty()) return;
  take(decided());
}

RunChosen RunChoice::decided() const {
  RunChosen chosen{.run = {new_run_, 0}, .clusters = {}, .failure = {}};
  const RunOffer& own = offers_.at(self_);
  std::vector<ReadableBy> all;
  for (const auto& [cluster, offer] : offers_) {
    chosen.clusters.push_back(static_cast<std::uint32_t>(cluster));
    all.push_back(named(cluster));
    if (offer.wanted == own.wanted) continue;
    chosen.failure = text(named(self_).who, " was told ", as_told(own.wanted), ", and ", named(cluster).who, " ",
                          as_told(offer.wanted), ": tell all nodes the same");
    return chosen;
  }
  const auto common = readable_by_all(all);
  if (!common.ok()) {
    chosen.failure = common.status().message();
  } else if (const auto best = preferred(*common, own.wanted)) {
    chosen.run = {best->run, best->updates};
    if (own.wanted == "best" && !best->accuracy)
      chosen.failure =
          "no checkpoint knows how good its weights are: go on from the newest, or validate while training";
  }
  return chosen;
}

void RunChoice::take(const RunChosen& chosen) {
  chosen_ = chosen;
  for (int other = 0; other < clusters(); ++other) answer(other);
}

void RunChoice::answer(int cluster) {
  if (cluster != self_) sends_.emplace_back(cluster, *chosen_);
}

bool RunChoice::came_late() const {
  return chosen_ && !chosen_->failure &&
         std::ranges::find(chosen_->clusters, static_cast<std::uint32_t>(self_)) == chosen_->clusters.end();
}

std::vector<int> RunChoice::left_out() const {
  std::vector<int> out;
  for (int cluster = 0; chosen_ && cluster < clusters(); ++cluster) {
    if (std::ranges::find(chosen_->clusters, static_cast<std::uint32_t>(cluster)) == chosen_->clusters.end())
      out.push_back(cluster);
  }
  return out;
}

std::optional<Result<CheckpointRun>> RunChoice::chosen() const {
  if (!chosen_) return std::nullopt;
  if (chosen_->failure) return Result<CheckpointRun>(not_found(printable(*chosen_->failure)));
  if (!came_late()) return Result<CheckpointRun>(chosen_->run);
  std::vector<ReadableCheckpoint> own;
  for (const ReadableCheckpoint& each : offers_.at(self_).checkpoints) {
    if (each.run == chosen_->run.run) own.push_back(each);
  }
  const auto newest = preferred(own, "newest");
  return Result<CheckpointRun>(CheckpointRun{chosen_->run.run, newest ? newest->updates : 0});
}

}  // namespace ravnest::train
