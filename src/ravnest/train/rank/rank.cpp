#include "ravnest/train/rank/rank.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <utility>

#include "ravnest/base/file.h"
#include "ravnest/cluster/microbatches.h"
#include "ravnest/strategy/communicate/texts.h"
#include "ravnest/train/node/call_sentences.h"
#include "ravnest/train/rank/plainly.h"
#include "ravnest/worker/tensors.h"

namespace ravnest::train {
namespace {

// Between two polls of whoever waits.
constexpr Duration kPollInterval = std::chrono::milliseconds(50);
// On a GPU a loss is looked at when another pass came after it: then it is computed, and the host waits for nothing
// while the GPU has the newest pass to do.
constexpr std::size_t kLossesUnderWay = 1;

std::vector<c10::IValue> as_values(const std::vector<at::Tensor>& tensors, c10::Device device) {
  std::vector<c10::IValue> values;
  for (const at::Tensor& tensor : tensors)
    values.emplace_back(tensor.defined() ? c10::IValue(tensor.to(device)) : c10::IValue());
  return values;
}

std::string joined(const wire::EncodedMessage& message) {
  std::string bytes;
  for (const Slice& part : message.parts) bytes.append(reinterpret_cast<const char*>(part.bytes.data()), part.size());
  return bytes;
}

wire::PassHead head_of(const stage::Offer& offer, std::uint64_t pass, double weight) {
  return {.pass = pass,
          .kind = offer.kind,
          .batch = offer.batch,
          .part = offer.part,
          .parts = offer.parts,
          .weight = weight,
          .update = offer.update,
          .epoch = offer.epoch,
          .index = offer.index,
          .digest = offer.digest};
}

std::string shown(const optim::Option& option) {
  std::ostringstream out;
  std::visit(
      [&](const auto& value) {
        if constexpr (requires { out << value; }) {
          out << value;
        } else {
          for (const auto& each : value) out << each << ' ';
        }
      },
      option);
  return out.str();
}

// By its name and options, as far as it tells them.
std::string described(const optim::Optimizer* optimizer) {
  if (optimizer == nullptr) return "none";
  std::string words(optimizer->name());
  for (const optim::ParameterGroup& group : optimizer->groups()) {
    for (const auto& [option, value] : group.options) words += text(", ", option, " ", shown(value));
  }
  return words;
}

}  // namespace

Status Rank::configure(TrainingOptions training_options) {
  training_options_ = std::move(training_options);
  training_options_.record.leaf = name();
  training_options_.record.warn = [this](const std::string& line) { warn(line); };
  if (rank() != 0)
    training_options_.record.loss_file = training_options_.record.accuracy_file = std::filesystem::path();
  else
    for (const auto& file : saved_files()) remove_unfinished(file);  // of a run that was killed
  record_ = std::make_unique<RunRecord>(training_options_.record);
  if (options_.strategy.precision == strategy::Precision::kFp16 && training_options_.codec != codec::Codec()) {
    return invalid("compression \"", codec::to_string(training_options_.codec),
                   "\" does not go with precision \"fp16\", whose gradients are scaled until they overflow: leave one "
                   "of them out, or take \"bf16\"");
  }
  auto used = compression_for(training_options_.codec, options_.strategy.backend, nccl_ != nullptr);
  if (!used.ok()) return used.status();
  if (!used->remark.empty()) warn(used->remark);
  training_options_.codec = used->codec;
  return plainly([&] { return make_ddp(); });
}

Status Rank::make_ddp() {
  // Units are for gradients to travel while others are computed: a rank that is alone has nobody to send them to.
  const bool whole = world() == 1 && options_.strategy.units.rule == graph::UnitRule::kBySize;
  const auto cuts =
      whole ? Result<std::vector<int>>(std::vector<int>()) : graph::unit_cuts(engine_.model(), options_.strategy.units);
  if (!cuts.ok()) return cuts.status();
  auto chain = strategy::Chain::cut(engine_, *cuts);
  if (!chain.ok()) return chain.status();
  strategy::DdpOptions ddp;
  ddp.seed = training_options_.seed;
  ddp.criterion = training_options_.criterion;
  ddp.broadcast_buffers = options_.strategy.broadcast_buffers;
  ddp.compression = training_options_.codec;
  ddp.precision = options_.strategy.precision;
  ddp.wait = [this](strategy::Pending& pending) { return wait(pending, poll_); };
  ddp.on_gradients = training_options_.clipping();
  ddp_ = std::make_unique<strategy::Ddp>(engine_, std::move(*chain), tensors(), std::move(training_options_.optimizer),
                                         std::move(ddp));
  return {};
}

// -- calls

Status Rank::begin(const std::string& call, const Poll& poll, const std::map<std::string, std::string>& settings) {
  std::map<std::string, std::string> all = settings;
  all.insert(training_options_.settings.begin(), training_options_.settings.end());
  all["seed"] = std::to_string(training_options_.seed);
  all["compression"] = codec::to_string(training_options_.codec);
  all["clip_value"] = text(training_options_.clip_value);
  all["clip_norm"] = text(training_options_.clip_norm);
  wire::Ready ready{.call = call, .settings = {}};
  for (const auto& [setting, value] : all) ready.settings.push_back({setting, value});
  std::ranges::move(checkpoint_settings(), std::back_inserter(ready.settings));
  ready.settings.push_back({"optimizer", described(ddp_->optimizer())});
  poll_ = poll;
  if (Status agreed = compare(ready); !agreed.ok()) return ended(agreed);
  const bool is_first = begun_ == TimePoint();
  trains_ = call == "train";
  if (Status gone_on = trains_ ? begin_checkpoints(all) : Status(); !gone_on.ok()) return gone_on;
  begun_ = SystemClock().now();
  times_before_ = ddp_->times();
  traffic_before_ = traffic();
  steps_before_ = ddp_->steps();
  skipped_before_ = ddp_->steps() - ddp_->updates();
  Status alike = is_first ? plainly([&] { return ddp_->begin(); }) : Status();
  return alike.ok() ? alike : ended(alike);
}

Status Rank::compare(const wire::Ready& ready) {
  const auto waiter = [&](strategy::Pending& pending) { return wait(pending, poll_); };
  auto encoded = wire::encode(ready);
  if (!encoded.ok()) return encoded.status();
  auto texts = strategy::gather_texts(*communicator_, joined(*encoded), c10::kCPU, waiter);
  if (!texts.ok()) return texts.status();
  std::vector<wire::Ready> all;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < texts->size(); ++i) {
    const auto bytes = std::as_bytes(std::span((*texts)[i]));
    auto message = wire::decode(slice_of({bytes.begin(), bytes.end()}));
    if (!message.ok()) return message.status();
    auto* const told = std::get_if<wire::Ready>(&*message);
    if (told == nullptr)
      return corrupt(strategy::rank_name(static_cast<int>(i)), " says something else than what it is ready for");
    all.push_back(std::move(*told));
    names.push_back(strategy::rank_name(static_cast<int>(i)));
  }
  Status alike = check_alike(all, names, "rank");
  return alike.ok() ? alike : ended_alike(alike);
}

Status Rank::feed(const Batch& batch, const Poll& poll) {
  poll_ = poll;
  Status fed = batch.kind == wire::PassKind::kTrain ? train(batch) : evaluate(batch);
  ++batches_;
  return fed.ok() ? fed : ended(fed);
}

Result<Told> Rank::told_by_all(Told own) {
  own.want_end(wants_end());
  const auto sum = communicator_->sum(std::span(own.numbers));
  if (Status summed = wait(*sum, poll_); !summed.ok()) return ended(summed);
  if (Status same = check_same(own, world()); !same.ok()) return ended_alike(same);
  hear(own);
  return own;
}

// A loop that users write feeds each rank by itself. One that is a batch behind the others would train all the same, on
// pairs of batches that belong to different steps.
Result<std::uint64_t> Rank::samples_of_all(const Batch& batch, const Poll& poll) {
  poll_ = poll;
  if (!announced_.empty()) {
    const std::uint64_t samples = announced_.front();
    announced_.pop_front();
    return samples;
  }
  const auto told = told_by_all(tells_batch_at(batch.epoch, batch.index, cluster::samples_of(batch.inputs)));
  if (!told.ok()) return told.status();
  return static_cast<std::uint64_t>(told->samples());
}

Status Rank::train(const Batch& batch) {
  if (Status taken = checkpoint_of_epoch(batch); !taken.ok()) return taken;
  const bool updates = (position_.trained + 1) % training_options_.update_frequency == 0;
  const stage::Offer whole{.kind = batch.kind,
                           .batch = batches_,
                           .update = updates,
                           .epoch = batch.epoch,
                           .index = batch.index,
                           .digest = batch.digest};
  const bool absent = batch.inputs.empty();
  const std::uint64_t own = absent ? 0 : cluster::samples_of(batch.inputs);
  const auto of_all = batch.of_all > 0 ? Result<std::uint64_t>(batch.of_all) : samples_of_all(batch, poll_);
  if (!of_all.ok()) return of_all.status();
  if (Status taken = take_reports(engine_.device().is_cpu() ? 0 : kLossesUnderWay); !taken.ok()) return taken;
  if (updates) reach(batch.epoch);
  if (ranks_) ranks_->at_step(ddp_->steps() + 1);
  const double weight = *of_all == 0 ? 0 : static_cast<double>(own) / static_cast<double>(*of_all);
  const std::uint64_t updates_before = ddp_->updates();
  const std::uint64_t skipped_before = ddp_->steps() - updates_before;
  wire::PassHead head = head_of(whole, passes_, weight);
  head.step = passes_ * static_cast<std::uint64_t>(world()) + static_cast<std::uint64_t>(rank());
  auto loss = plainly(
      [&] { return absent ? ddp_->absent(head) : ddp_->train(head, as_values(batch.inputs, engine_.device())); });
  if (!loss.ok()) return loss.status();
  ++passes_;
  position_.epoch = batch.epoch;
  position_.index = batch.index + 1;
  ++position_.trained;
  count_samples(position_, batch, *of_all);
  position_.passes = passes_ * static_cast<std::uint64_t>(world());
  stage::Offer offer = whole;
  offer.samples = *of_all;
  offer.checkpoint = updates ? checkpoint_due() : 0;
  record_->expect(offer, offer.samples);
  reports_.push_back({offer, std::move(*loss)});
  if (ddp_->updates() != updates_before && training_options_.on_update) training_options_.on_update(ddp_->updates());
  warn_of_skipped(skipped_before);
  return offer.checkpoint > 0 ? take_snapshot({}) : Status();
}

// Once: fp16 begins with a scale that is too large for many models, and finds its own within a few updates.
void Rank::warn_of_skipped(std::uint64_t skipped_before) {
  if (skipped_before > 0 || ddp_->steps() == ddp_->updates()) return;
  warn(text("the gradients of update ", ddp_->steps(),
            " were not finite in fp16: all ranks skip it, and halve the loss scale to ", ddp_->loss_scale()->scale(),
            ". The summary counts such updates"));
}

// Losses that have arrived go into the record, but for the newest ones.
Status Rank::take_reports(std::size_t keep) {
  while (reports_.size() > keep) {
    const Reported reported = std::move(reports_.front());
    reports_.pop_front();
    auto values = reported.loss.values(SystemClock().now() + kPollInterval);
    while (values.status().code() == Code::kDeadline) {
      if (Status polled = poll_ ? poll_() : Status(); !polled.ok()) return polled;
      values = reported.loss.values(SystemClock().now() + kPollInterval);
    }
    const std::span<const double> numbers = *values;
    wire::Report report{.pass = reported.offer.batch,
                        .loss = numbers[0],
                        .samples = reported.offer.samples,
                        .correct = 0,
                        .outputs = {}};
    std::string by;
    for (std::size_t i = 1; i < numbers.size(); ++i) {
      if (numbers[i] != 0 && by.empty()) by = strategy::rank_name(static_cast<int>(i - 1));
    }
    const Status taken = record_->on_report(std::move(report), by);
    if (taken.code() == Code::kInvalid) return ended_alike(taken);  // all have the same numbers
    if (!taken.ok()) return taken;
  }
  return {};
}

// Of this rank alone: what all of them found is summed when the sweep ends.
Status Rank::evaluate(const Batch& batch) {
  if (batch.kind == wire::PassKind::kPredict) {
    auto outputs = plainly([&] { return ddp_->evaluate(as_values(batch.inputs, engine_.device())); });
    if (!outputs.ok()) return outputs.status();
    stage::Offer offer{.kind = batch.kind, .batch = batches_};
    record_->expect(offer, 0);
    wire::Report report;
    for (const c10::IValue& output : *outputs)
      if (output.isTensor()) report.outputs.push_back(worker::to_wire(output.toTensor(), {}, /*host=*/true));
    return record_->on_report(std::move(report));
  }
  if (!announced_.empty()) announced_.pop_front();
  sweeps_ = batch.epoch + 1;
  if (batch.inputs.empty()) return {};
  const stage::Offer offer{
      .kind = batch.kind, .batch = batches_, .epoch = batch.epoch, .index = batch.index, .digest = batch.digest};
  auto result = plainly([&]() -> Result<worker::CriterionResult> {
    const auto outputs = ddp_->evaluate(as_values(batch.inputs, engine_.device()));
    if (!outputs.ok()) return outputs.status();
    return ddp_->apply_criterion(head_of(offer, batches_, 1), *outputs);
  });
  if (!result.ok()) return result.status();
  swept_samples_ += result->samples;
  swept_correct_ += result->correct;
  return {};
}

Status Rank::end_sweep(Sweep sweep) {
  position_.sweep = sweeps_;
  if (sweep == Sweep::kValidation) position_.validated = position_.trained;
  const auto told =
      told_by_all(tells(Next::kSweepEnd, std::exchange(swept_samples_, 0), std::exchange(swept_correct_, 0)));
  if (!told.ok()) return told.status();
  const auto samples = static_cast<std::uint64_t>(told->samples());
  if (Status taken = take_reports(0); !taken.ok()) return ended(taken);
  const stage::Offer all{.kind = wire::PassKind::kValidate, .batch = batches_};
  record_->expect(all, samples);
  Status recorded = record_->expect_end(sweep);
  if (recorded.ok()) {
    // A loss of validation is neither asked for nor shown, here and in pipelines.
    recorded = record_->on_report({.pass = batches_,
                                   .loss = 0,
                                   .samples = samples,
                                   .correct = static_cast<std::uint64_t>(told->correct()),
                                   .outputs = {}});
  }
  return recorded.ok() ? recorded : ended(recorded);
}

Status Rank::drain(const Poll& poll) {
  poll_ = poll;
  Status taken = take_reports(0);
  return taken.ok() ? taken : ended(taken);
}

void Rank::reach(std::uint64_t epochs) {
  if (epochs <= epochs_) return;
  epochs_ = epochs;
  if (training_options_.on_epochs) training_options_.on_epochs(epochs);
}

// -- waiting, and endings

Status Rank::wait(strategy::Pending& pending, const Poll& poll) {
  for (;;) {
    Status status = pending.wait_until(SystemClock().now() + kPollInterval);
    if (status.code() != Code::kDeadline) return status;
    if (poll) {
      if (Status polled = poll(); !polled.ok()) return polled;
    }
  }
}

Status Rank::ended(const Status& seen) {
  if (!ranks_ || seen.code() == Code::kCancelled) return seen;
  if (Status known = ranks_->status(); !known.ok()) return known;
  // What others may know more of: the network, and ranks that do not exchange the same.
  if (seen.code() == Code::kUnavailable || seen.code() == Code::kCorrupt) return ranks_->why(seen, poll_);
  return ranks_->fail(text("failed: ", seen.message()));
}

Status Rank::ended_alike(const Status& seen) { return ranks_ ? ranks_->end(seen.message()) : seen; }

Status Rank::stop(const Farewell& farewell) { return ranks_ ? ranks_->fail(farewell.reason) : Status(); }

void Rank::warn(const std::string& line) const {
  if (training_options_.record.progress != nullptr)
    training_options_.record.progress->above(line);
  else if (rank() == 0)
    options_.log.warning(line);
}

}  // namespace ravnest::train
