#include "ravnest/train/rank/rank.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "ravnest/archive/pickle/state_dict.h"
#include "ravnest/archive/weights/safetensors.h"
#include "ravnest/base/file.h"
#include "ravnest/cluster/microbatches.h"
#include "ravnest/codec/crc32c.h"
#include "ravnest/strategy/communicate/texts.h"
#include "ravnest/train/node/call_sentences.h"
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

// Small, and unlike its neighbours': places that differ and have the same sum do not have the same sum of these.
std::int64_t scattered(std::int64_t place) {
  return static_cast<std::int64_t>((static_cast<std::uint64_t>(place) * 2'654'435'761U) >> 8 & 0x7fff'ffffU);
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

// What torch throws, and functions of the user's, as a failure in their own words.
template <class Compute>
auto plainly(const Compute& compute) -> decltype(compute()) {
  try {
    return compute();
  } catch (const c10::Error& error) {
    return internal(error.what_without_backtrace());
  } catch (const std::runtime_error& error) {
    return internal(error.what());
  }
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
  const auto cuts = graph::unit_cuts(engine_.model(), options_.strategy.units);
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

Status Rank::begin(const std::string& call, const Poll& poll) {
  std::map<std::string, std::string> settings = training_options_.settings;
  settings["seed"] = std::to_string(training_options_.seed);
  settings["compression"] = codec::to_string(training_options_.codec);
  settings["precision"] = strategy::precision_name(options_.strategy.precision);
  settings["float32"] = float32_name(options_.strategy.float32);
  wire::Ready ready{.call = call, .settings = {}};
  for (const auto& [setting, value] : settings) ready.settings.push_back({setting, value});
  ready.settings.push_back({"optimizer", described(ddp_->optimizer())});
  poll_ = poll;
  if (Status agreed = compare(ready); !agreed.ok()) return ended(agreed);
  const bool is_first = begun_ == TimePoint();
  begun_ = SystemClock().now();
  before_ = ddp_->times();
  Status alike = is_first ? ddp_->begin() : Status();
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
  return check_alike(all, names);
}

Status Rank::feed(const Batch& batch, const Poll& poll) {
  poll_ = poll;
  Status fed = batch.kind == wire::PassKind::kTrain ? train(batch) : evaluate(batch);
  ++batches_;
  return fed.ok() ? fed : ended(fed);
}

// A loop that users write feeds each rank by itself. One that is a batch behind the others would train all the same, on
// pairs of batches that belong to different steps.
Result<std::uint64_t> Rank::samples_of_all(const Batch& batch) {
  if (!announced_.empty()) {
    const std::uint64_t samples = announced_.front();
    announced_.pop_front();
    return samples;
  }
  const auto place = static_cast<std::int64_t>(batch.epoch * 1'000'003 + batch.index);
  std::int64_t told[] = {static_cast<std::int64_t>(cluster::samples_of(batch.inputs)), place, scattered(place)};
  const auto sum = communicator_->sum(std::span(told));
  if (Status summed = wait(*sum, poll_); !summed.ok()) return summed;
  if (told[1] != place * world() || told[2] != scattered(place) * world()) {
    return invalid("the ranks feed batches of different places: this one is at batch ", batch.index + 1, " of epoch ",
                   batch.epoch + 1, ". Every rank has to feed as many batches; Trainer.train() sees to that by itself");
  }
  return static_cast<std::uint64_t>(told[0]);
}

Status Rank::train(const Batch& batch) {
  const bool updates = (trained_ + 1) % training_options_.update_frequency == 0;
  const stage::Offer whole{.kind = batch.kind,
                           .batch = batches_,
                           .update = updates,
                           .epoch = batch.epoch,
                           .index = batch.index,
                           .digest = batch.digest};
  const bool absent = batch.inputs.empty();
  const std::uint64_t own = absent ? 0 : cluster::samples_of(batch.inputs);
  const auto of_all = samples_of_all(batch);
  if (!of_all.ok()) return of_all.status();
  if (Status taken = take_reports(engine_.device().is_cpu() ? 0 : kLossesUnderWay); !taken.ok()) return taken;
  if (updates) reach(batch.epoch);
  if (ranks_) ranks_->at_step(ddp_->steps() + 1);
  const double weight = *of_all == 0 ? 0 : static_cast<double>(own) / static_cast<double>(*of_all);
  const std::uint64_t updates_before = ddp_->updates();
  const std::uint64_t skipped_before = ddp_->steps() - updates_before;
  wire::PassHead head = head_of(whole, trained_, weight);
  head.step = trained_ * static_cast<std::uint64_t>(world()) + static_cast<std::uint64_t>(rank());
  auto loss = plainly(
      [&] { return absent ? ddp_->absent(head) : ddp_->train(head, as_values(batch.inputs, engine_.device())); });
  if (!loss.ok()) return loss.status();
  stage::Offer offer = whole;
  offer.samples = *of_all;
  record_->expect(offer, offer.samples);
  reports_.push_back({offer, std::move(*loss)});
  ++trained_;
  if (ddp_->updates() != updates_before && training_options_.on_update) training_options_.on_update(ddp_->updates());
  warn_of_skipped(skipped_before);
  return {};
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
    if (Status taken = record_->on_report(std::move(report), by); !taken.ok()) return taken;
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
  std::int64_t counts[] = {static_cast<std::int64_t>(swept_samples_), static_cast<std::int64_t>(swept_correct_)};
  swept_samples_ = swept_correct_ = 0;
  const auto sum = communicator_->sum(std::span(counts));
  if (Status summed = wait(*sum, poll_); !summed.ok()) return ended(summed);
  if (Status taken = take_reports(0); !taken.ok()) return ended(taken);
  const stage::Offer all{.kind = wire::PassKind::kValidate, .batch = batches_};
  record_->expect(all, static_cast<std::uint64_t>(counts[0]));
  Status recorded = record_->expect_end(sweep);
  if (recorded.ok()) {
    recorded = record_->on_report({.pass = batches_,
                                   .loss = 0,
                                   .samples = static_cast<std::uint64_t>(counts[0]),
                                   .correct = static_cast<std::uint64_t>(counts[1]),
                                   .outputs = {}});
  }
  return recorded.ok() ? recorded : ended(recorded);
}

Status Rank::drain(const Poll& poll) {
  poll_ = poll;
  Status taken = take_reports(0);
  return taken.ok() ? taken : ended(taken);
}

Status Rank::finish(const wire::Task& task, const Poll& poll) {
  if (Status drained = drain(poll); !drained.ok()) return drained;
  if (Status alike = compare_parameters(); !alike.ok()) return ended(alike);
  reach(task.epochs);
  if (task.save) {
    const Status saved = rank() == 0 ? save() : Status();
    const auto told = strategy::gather_texts(*communicator_, saved.message(), c10::kCPU,
                                             [&](strategy::Pending& pending) { return wait(pending, poll_); });
    if (!told.ok()) return ended(told.status());
    if (!told->front().empty())
      return unavailable(ranks_ ? ranks_->shown(0) + " could not save the model: " : "", told->front());
  }
  Status gathered = gather_work();
  return gathered.ok() ? gathered : ended(gathered);
}

// All ranks take the same steps. Where they did not (an optimizer, a scheduler or a hook of the user's that goes by the
// rank), what is saved is nobody's.
Status Rank::compare_parameters() {
  std::uint32_t checksum = 0;
  for (const at::Tensor& parameter : ddp_->parameters()) {
    const at::Tensor host = parameter.detach().to(at::kCPU).contiguous();
    checksum = codec::crc32c({static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes()}, checksum);
  }
  std::vector<std::int64_t> checksums(static_cast<std::size_t>(world()));
  checksums[static_cast<std::size_t>(rank())] = checksum;
  const auto sum = communicator_->sum(std::span(checksums));
  if (Status summed = wait(*sum, poll_); !summed.ok()) return summed;
  const auto other = std::ranges::find_if(checksums, [&](std::int64_t each) { return each != checksums.front(); });
  if (other == checksums.end()) return {};
  return invalid(
      "the parameters of ", strategy::rank_name(static_cast<int>(other - checksums.begin())),
      " are not those of rank_0 any more: an optimizer, a scheduler, a hook or the script itself changes them "
      "differently there. All ranks have to do the same");
}

void Rank::reach(std::uint64_t epochs) {
  if (epochs <= epochs_) return;
  epochs_ = epochs;
  if (training_options_.on_epochs) training_options_.on_epochs(epochs);
}

// The state dict, for torch.load and for all others.
std::array<std::filesystem::path, 2> Rank::saved_files() const {
  return {options_.trained / "trained_state_dict.pt", options_.trained / "trained_state_dict.safetensors"};
}

Status Rank::save() const {
  std::error_code error;
  std::filesystem::create_directories(options_.trained, error);
  if (error) return unavailable("cannot create the folder ", options_.trained.string(), ": ", error.message());
  const ir::Model model = engine_.model();
  const auto [state_dict, safetensors] = saved_files();
  Status written = archive::write_state_dict(state_dict, model.weights);
  if (written.ok()) written = archive::write_safetensors(safetensors, archive::Safetensors{{}, model.weights});
  if (written.ok()) options_.log.info("saved ", state_dict.string());
  return written;
}

// -- what all ranks did

Status Rank::gather_work() {
  constexpr std::size_t kNumbers = 7;
  const strategy::DdpTimes now = ddp_->times();
  std::vector<double> numbers(kNumbers * static_cast<std::size_t>(world()));
  const std::span<double> own = std::span(numbers).subspan(kNumbers * static_cast<std::size_t>(rank()), kNumbers);
  own[0] = seconds_between(begun_, SystemClock().now());
  own[1] = now.forward_s - before_.forward_s;
  own[2] = now.backward_s - before_.backward_s;
  own[3] = now.update_s - before_.update_s;
  own[4] = now.wait_s - before_.wait_s;
  for (int other = 0; ranks_ && other < world(); ++other) {
    const auto peer = ranks_->endpoint().statistics(strategy::rank_name(other));
    if (!peer.ok()) continue;  // this rank itself
    own[5] += static_cast<double>(peer->bytes_sent);
    own[6] += static_cast<double>(peer->bytes_received);
  }
  const auto sum = communicator_->sum(std::span(numbers));
  if (Status summed = wait(*sum, poll_); !summed.ok()) return summed;
  work_.clear();
  for (int i = 0; i < world(); ++i) {
    const std::span<const double> each = std::span(numbers).subspan(kNumbers * static_cast<std::size_t>(i), kNumbers);
    work_.push_back({strategy::rank_name(i), each[0], each[1], each[2], each[3], each[4],
                     static_cast<std::uint64_t>(each[5]), static_cast<std::uint64_t>(each[6])});
  }
  return {};
}

report::RanksSummary Rank::summary(double seconds, std::uint64_t samples, std::uint64_t epochs) const {
  report::RanksSummary summary;
  summary.run.seconds = seconds;
  summary.run.samples = samples;
  summary.run.epochs = epochs;
  if (epochs > 0) summary.run.updates_per_epoch = ddp_->steps() / epochs;
  summary.run.accuracy = record_->accuracy();
  summary.run.bad_losses = record_->bad_losses();
  if (training_options_.codec != codec::Codec()) summary.run.compression = codec::to_string(training_options_.codec);
  if (world() > 1) summary.backend = nccl_ ? "NCCL" : "the ring";
  summary.strategy = world() > 1 ? "ddp" : "single";
  summary.precision = strategy::precision_name(options_.strategy.precision);
  if (options_.strategy.float32 == Float32::kTf32) summary.precision += " with tf32";
  if (const auto& scale = ddp_->loss_scale())
    summary.skipped = {.updates = scale->skipped(), .loss_scale = scale->scale()};
  summary.ranks = work_;
  return summary;
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
  switch (seen.code()) {
    case Code::kUnavailable: return ranks_->why(seen);
    case Code::kInternal: return ranks_->fail(text("failed: ", seen.message()));  // nobody else has seen it
    default: return seen;
  }
}

Status Rank::stop(const Farewell& farewell) { return ranks_ ? ranks_->fail(farewell.reason) : Status(); }

void Rank::warn(const std::string& line) const {
  if (training_options_.record.progress != nullptr)
    training_options_.record.progress->above(line);
  else if (rank() == 0)
    options_.log.warning(line);
}

}  // namespace ravnest::train
