// How a rank comes to its model and to the others.
#include <ATen/Context.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "ravnest/graph/ir/archive/archive.h"
#include "ravnest/graph/ir/archive/program.h"
#include "ravnest/graph/ir/real.h"
#include "ravnest/graph/run/block_allocator.h"
#include "ravnest/identity/sha256.h"
#include "ravnest/strategy/communicate/alone.h"
#include "ravnest/strategy/communicate/ring_communicator.h"
#include "ravnest/strategy/launch/reminder.h"
#include "ravnest/strategy/launch/torchelastic_store.h"
#include "ravnest/train/node/device.h"
#include "ravnest/train/rank/rank.h"
#include "ravnest/train/rank/rank_device.h"

namespace ravnest::train {
namespace {

// For the last messages to arrive.
constexpr Duration kLeaveTime = std::chrono::seconds(2);
// That NCCL takes long: it usually connects within a second or two.
constexpr Duration kSayNcclAfter = std::chrono::seconds(3);
constexpr Duration kSayNcclEvery = std::chrono::seconds(10);

Result<graph::Engine> load_engine(const std::filesystem::path& archive, c10::Device device) {
  if (Status there = check_device(device); !there.ok()) return there;
  try {
    auto model = ir::read_archive(archive);
    if (!model.ok()) return model.status();
    if (Status real = ir::check_real(*model); !real.ok()) return real;
    auto engine = graph::Engine::create(std::move(*model), device);
    if (!engine.ok()) return engine.status().with_context(archive.string());
    return engine;
  } catch (const c10::Error& error) {
    return unavailable("cannot load ", archive.string(), " to the device ", device.str(), ": ",
                       error.what_without_backtrace());
  }
}

// Of what is computed. The weights may differ: all ranks begin with rank 0's.
Result<std::string> digest_of(const graph::Engine& engine) {
  std::string all;
  for (const graph::Mode mode : {graph::Mode::kTrain, graph::Mode::kEval})
    all += ir::encode_program(engine.graph(mode)).dump();
  auto digest = identity::sha256(std::as_bytes(std::span(all)));
  if (!digest.ok()) return digest;
  return digest->substr(0, 16);
}

// With its number, which "cuda" alone does not say.
c10::Device device_of(const graph::Engine& engine) {
  return engine.tensors().empty() ? engine.device() : engine.tensors().front().device();
}

// What has to be the same on all ranks before they can do anything together.
std::vector<wire::Setting> settings_of(const StrategyOptions& strategy, const std::string& model) {
  const auto said = [](bool flag) { return flag ? "true" : "false"; };
  return {{"model", model},
          {"units", strategy.units.rule == graph::UnitRule::kBlocks ? "blocks" : "size"},
          {"broadcast_buffers", said(strategy.broadcast_buffers)},
          {"backend", std::string(backend_name(strategy.backend))},
          {"trusted_network", said(strategy.trusted_network)},
          {"precision", std::string(strategy::precision_name(strategy.precision))},
          {"float32", std::string(float32_name(strategy.float32))}};
}

}  // namespace

Rank::Rank(RankOptions options, graph::Engine engine) : options_(std::move(options)), engine_(std::move(engine)) {
  if (!options_.device.is_cpu()) float32_.emplace(options_.strategy.float32);
}

// All that this rank can do without the others.
Result<std::unique_ptr<Rank>> Rank::load(RankOptions options) {
  const auto device = rank_device({options.device, options.strategy.backend, at::getNumGPUs(), options.gpus_are_chosen},
                                  options.rendezvous.place);
  if (!device.ok()) return device.status();
  options.device = *device;
  if (options.device.is_cpu()) graph::keep_large_blocks();
  auto engine = load_engine(options.model, options.device);
  if (!engine.ok()) return engine.status();
  if (engine->stage() && engine->stage()->count > 1) {
    return invalid(options.model.string(), " is stage ", engine->stage()->index, " of ", engine->stage()->count,
                   ": a rank trains a whole model, as ravnest.capture or `ravnest model` writes it");
  }
  if (Status fits = strategy::check_precision(*engine, options.strategy.precision, options.model.string()); !fits.ok())
    return fits;
  const auto digest = digest_of(*engine);
  if (!digest.ok()) return digest.status();
  for (wire::Setting& each : settings_of(options.strategy, *digest))
    options.rendezvous.settings.push_back(std::move(each));
  return std::unique_ptr<Rank>(new Rank(std::move(options), std::move(*engine)));
}

strategy::RendezvousOptions Rank::meeting_of(const RankOptions& options) {
  strategy::RendezvousOptions meeting = options.rendezvous;
  if (meeting.place.agent_store && !meeting.exchange) meeting.exchange = strategy::torchelastic_exchange(meeting.place);
  return meeting;
}

Result<std::unique_ptr<Rank>> Rank::open(RankOptions options, const Poll& poll) {
  const bool is_alone = options.rendezvous.place.world == 1;
  auto loaded = load(options);
  if (!loaded.ok() && !is_alone) return withdraw(options, text("failed: ", loaded.status().message()), poll);
  if (!loaded.ok()) return loaded;
  std::unique_ptr<Rank> rank = *std::move(loaded);
  if (is_alone) {
    rank->communicator_ = std::make_unique<strategy::AloneCommunicator>();
    return rank;
  }
  auto meeting = meeting_of(rank->options_);
  auto met = strategy::meet(std::move(meeting), poll);
  if (!met.ok()) return met.status();
  if (Status joined = rank->join(std::move(*met), poll); !joined.ok()) return joined;
  return rank;
}

Status Rank::withdraw(const RankOptions& options, const std::string& reason, const Poll& poll) {
  return strategy::withdraw(meeting_of(options), reason, poll);
}

// From here on this rank does not go without a word: the others wait for it.
Status Rank::join(strategy::Met met, const Poll& poll) {
  std::vector<std::string> names;
  for (int i = 0; i < met.world; ++i) names.push_back(strategy::rank_name(i));
  const int own = met.rank;
  ranks_ = std::make_unique<strategy::Ranks>(std::move(met));
  communicator_ = std::make_unique<strategy::RingCommunicator>(ranks_->endpoint(), std::move(names), own);
  ranks_->on_failure([this](const Status& why) { communicator_->abort(why); });
  poll_ = poll;
  Status joined = choose_backend(poll);
  if (!joined.ok()) joined = ended(joined);
  if (joined.code() == Code::kCancelled) (void)stop(Farewell::interruption());
  poll_ = {};
  return joined;
}

Status Rank::choose_backend(const Poll& poll) {
  const auto waiter = [&](strategy::Pending& pending) { return wait(pending, poll); };
  const StrategyOptions& asked = options_.strategy;
  const c10::Device device = device_of(engine_);
  auto chosen = train::choose_backend({.asked = asked.backend,
                                       .trusted_network = asked.trusted_network,
                                       .place = options_.rendezvous.place,
                                       .device = device,
                                       .encrypted = options_.rendezvous.token.has_value(),
                                       .gpu = gpu_identity(device),
                                       .nccl_library = options_.nccl_library},
                                      *communicator_, waiter);
  if (!chosen.ok()) return chosen.status().code() == Code::kInvalid ? ended_alike(chosen.status()) : chosen.status();
  nccl_ = std::move(chosen->nccl);
  if (rank() == 0) options_.log.info(world(), " ranks exchange their gradients by ", chosen->why);
  ranks_->on_failure([this](const Status& why) {
    communicator_->abort(why);
    if (nccl_) nccl_->abort(why);
  });
  return nccl_ ? connect_nccl(poll) : Status();
}

Status Rank::connect_nccl(const Poll& poll) {
  const TimePoint now = SystemClock().now();
  const Poll saying = strategy::with_reminder(
      poll, options_.log, [this] { return text("waiting for NCCL to connect the ", world(), " ranks"); },
      strategy::Reminder(now, kSayNcclAfter, kSayNcclEvery));
  return nccl_->connect(now + options_.nccl_time, [&](strategy::Pending& pending) { return wait(pending, saying); });
}

void Rank::close() {
  if (ranks_) {
    ranks_->on_failure({});
    // The thread that tells of a failure may not have come to it: NCCL has no good end without the other ranks.
    if (const Status ended = ranks_->status(); nccl_ && !ended.ok()) nccl_->abort(ended);
  }
  checkpoints_.reset();
  trains_ = false;
  ddp_.reset();
  nccl_.reset();
  communicator_.reset();
  if (ranks_) (void)ranks_->leave(SystemClock().now() + kLeaveTime);
  ranks_.reset();
}

Rank::~Rank() { close(); }

}  // namespace ravnest::train
