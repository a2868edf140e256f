#include "ravnest/average/stage_exchange.h"

#include <algorithm>
#include <utility>

namespace ravnest::average {

StageExchange::StageExchange(const Attempt& attempt, int cluster, const std::vector<StrandPlace>& strands,
                             std::vector<ExchangePart> parts, collective::RingDriver<float> driver)
    : attempt_(attempt.attempt), parts_(std::move(parts)), driver_(std::move(driver)) {
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
    driver_.add(options, part.values, strand.nodes[before.cluster], strand.nodes[after.cluster]);
    for (const wire::Seat* seat : {&before, &after}) {
      const std::pair neighbour(static_cast<int>(seat->cluster), strand.nodes[seat->cluster]);
      if (seat != &*own && std::ranges::find(neighbours_, neighbour) == neighbours_.end())
        neighbours_.push_back(neighbour);
    }
  }
}

Status StageExchange::on_chunk(const std::string& from, wire::RingChunk chunk) {
  const bool ours = std::ranges::find(parts_, chunk.strand, &ExchangePart::number) != parts_.end();
  const bool from_neighbour =
      std::ranges::find(neighbours_, from, &std::pair<int, std::string>::second) != neighbours_.end();
  Status taken =
      ours || !from_neighbour ? driver_.on_chunk(from, std::move(chunk)) : corrupt("it sends vector ", chunk.strand);
  return taken.with_context(text(from,
                                 " does not average what this node does: it has another plan, another stage in place "
                                 "of the planned one, or other settings (compression, outer)"));
}

}  // namespace ravnest::average
