#include "ravnest/average/stage_exchange.h"

#include <algorithm>
#include <utility>

namespace ravnest::average {

StageExchange::StageExchange(const Attempt& attempt, int cluster, const std::vector<AveragingPlace>& averaging_groups,
                             std::vector<ExchangePart> parts, collective::RingDriver<float> driver)
    : attempt_(attempt.attempt), parts_(std::move(parts)), driver_(std::move(driver)) {
  const auto& participants = attempt.participants;
  const auto own = std::ranges::find(participants, static_cast<std::uint32_t>(cluster), &wire::Participant::cluster);
  const auto self = static_cast<std::size_t>(own - participants.begin());
  double weights = 0;
  for (const wire::Participant& participant : participants) weights += participant.weight;
  const wire::Participant& before = participants[(self + participants.size() - 1) % participants.size()];
  const wire::Participant& after = participants[(self + 1) % participants.size()];
  for (ExchangePart& part : parts_) {
    collective::ExchangeOptions options;
    options.ring.members = static_cast<std::uint32_t>(participants.size());
    options.ring.self = static_cast<std::uint32_t>(self);
    options.ring.chunk_elements = collective::kChunkBytes / sizeof(float);
    options.round = attempt.round;
    options.attempt = attempt.attempt;
    options.vector = part.number;
    options.scale = own->weight / weights;
    options.codec = part.codec;
    options.residual = part.residual;
    const AveragingPlace& averaging_group = averaging_groups[part.averaging_group];
    driver_.add(options, part.values, averaging_group.nodes[before.cluster], averaging_group.nodes[after.cluster]);
    for (const wire::Participant* participant : {&before, &after}) {
      const std::pair neighbour(static_cast<int>(participant->cluster), averaging_group.nodes[participant->cluster]);
      if (participant != &*own && std::ranges::find(neighbours_, neighbour) == neighbours_.end())
        neighbours_.push_back(neighbour);
    }
  }
}

Status StageExchange::on_chunk(const std::string& from, wire::RingChunk chunk) {
  const bool ours = std::ranges::find(parts_, chunk.vector, &ExchangePart::number) != parts_.end();
  const bool from_neighbour =
      std::ranges::find(neighbours_, from, &std::pair<int, std::string>::second) != neighbours_.end();
  Status taken =
      ours || !from_neighbour ? driver_.on_chunk(from, std::move(chunk)) : corrupt("it sends vector ", chunk.vector);
  return taken.with_context(text(from,
                                 " does not average what this node does: it has another plan, another stage in place "
                                 "of the planned one, or other settings (compression, outer)"));
}

}  // namespace ravnest::average
