#include "ravnest/pipeline/stage_exchange.h"

#include <algorithm>
#include <iterator>

namespace ravnest::pipeline {
namespace {

// What a member sends unasked, of each vector; from then on one for each that comes.
constexpr std::size_t kChunksAhead = 32;

}  // namespace

StageExchange::StageExchange(const collective::Attempt& attempt, int cluster, const std::vector<StrandPlace>& strands,
                             std::vector<ExchangePart> parts, transport::BufferPool& pool)
    : attempt_(attempt.attempt), parts_(std::move(parts)) {
  const auto& seats = attempt.seats;
  const auto own = std::ranges::find(seats, static_cast<std::uint32_t>(cluster), &wire::Seat::cluster);
  const auto self = static_cast<std::size_t>(own - seats.begin());
  double weights = 0;
  for (const wire::Seat& seat : seats) weights += seat.weight;
  const wire::Seat& before = seats[(self + seats.size() - 1) % seats.size()];
  const wire::Seat& after = seats[(self + 1) % seats.size()];
  for (ExchangePart& part : parts_) {
    collective::ExchangeOptions options;
    options.ring.members = static_cast<std::uint32_t>(seats.size());
    options.ring.self = static_cast<std::uint32_t>(self);
    options.ring.chunk_elements = collective::kChunkBytes / sizeof(float);
    options.round = attempt.round;
    options.attempt = attempt.attempt;
    options.strand = part.number;
    options.scale = own->weight / weights;
    options.codec = part.codec;
    options.residual = part.residual;
    const StrandPlace& strand = strands[part.strand];
    running_.push_back(
        std::make_unique<Running>(Running{collective::Exchange<float>(options, part.values, pool, part.values),
                                          strand.nodes[before.cluster], strand.nodes[after.cluster]}));
    for (const wire::Seat* seat : {&before, &after}) {
      const std::pair neighbour(static_cast<int>(seat->cluster), strand.nodes[seat->cluster]);
      if (seat != &*own && std::ranges::find(neighbours_, neighbour) == neighbours_.end())
        neighbours_.push_back(neighbour);
    }
  }
}

Result<StageExchange::Letters> StageExchange::start() {
  Letters letters;
  for (const auto& running : running_) {
    if (Status begun = begin_more(*running, kChunksAhead, letters); !begun.ok()) return begun;
  }
  return letters;
}

Status StageExchange::begin_more(Running& running, std::size_t most, Letters& letters) {
  auto chunks = running.exchange.start(most);
  if (!chunks.ok()) return chunks.status();
  for (wire::RingChunk& chunk : *chunks) letters.push_back({running.next, std::move(chunk)});
  return {};
}

Result<StageExchange::Letters> StageExchange::on_chunk(const std::string& from, wire::RingChunk chunk) {
  const auto disagree = [&](const Status& why) {
    return why.with_context(
        text(from,
             " does not average what this node does: it has another plan, another stage in place of "
             "the planned one, or other settings (compression, outer)"));
  };
  const auto part = std::ranges::find(parts_, chunk.strand, &ExchangePart::number);
  if (part == parts_.end() &&
      std::ranges::find(neighbours_, from, &std::pair<int, std::string>::second) != neighbours_.end())
    return disagree(corrupt("it sends vector ", chunk.strand));
  if (part == parts_.end() || running_[static_cast<std::size_t>(part - parts_.begin())]->previous != from) {
    ++ignored_;
    return Letters();
  }
  Running& running = *running_[static_cast<std::size_t>(part - parts_.begin())];
  auto passed_on = running.exchange.on_chunk(std::move(chunk));
  if (!passed_on.ok()) return disagree(passed_on.status());
  Letters letters;
  if (*passed_on) letters.push_back({running.next, std::move(**passed_on)});
  if (Status begun = begin_more(running, 1, letters); !begun.ok()) return begun;
  return letters;
}

bool StageExchange::complete() const {
  return std::ranges::all_of(running_, [](const auto& running) { return running->exchange.complete(); });
}

std::uint64_t StageExchange::ignored() const {
  std::uint64_t ignored = ignored_;
  for (const auto& running : running_) ignored += running->exchange.ignored();
  return ignored;
}

}  // namespace ravnest::pipeline
