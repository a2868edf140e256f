#include "ravnest/collective/ring.h"

#include <algorithm>

#include "ravnest/base/check.h"

namespace ravnest::collective {
namespace {

bool reduces(Operation operation) {
  return operation == Operation::kAllReduce || operation == Operation::kReduceScatter;
}

}  // namespace

std::string_view name(Operation operation) {
  switch (operation) {
    case Operation::kAllReduce: return "all-reduce";
    case Operation::kReduceScatter: return "reduce-scatter";
    case Operation::kAllGather: return "all-gather";
    case Operation::kBroadcast: return "broadcast";
  }
  return "unknown";
}

Range segment_range(std::size_t elements, std::uint32_t segments, std::uint32_t segment) {
  // The longer ones first.
  const std::size_t length = elements / segments;
  const std::size_t longer = elements % segments;
  const std::size_t first = length * segment + std::min<std::size_t>(segment, longer);
  return {first, first + length + (segment < longer ? 1 : 0)};
}

Ring::Ring(const RingOptions& options)
    : options_(options),
      segments_(options.operation == Operation::kBroadcast ? 1 : options.members),
      reducing_hops_(reduces(options.operation) ? options.members - 1 : 0),
      last_hop_((options.operation == Operation::kAllReduce ? 2 : 1) * (options.members - 1)),
      first_chunk_(1) {
  RAVNEST_CHECK(options.self < options.members && options.root < options.members && options.chunk_elements > 0,
                "member ", options.self, " of ", options.members);
  for (std::uint32_t segment = 0; segment < segments_; ++segment) {
    const std::size_t length = segment_range(options_.elements, segments_, segment).size();
    const std::size_t chunks = (length + options_.chunk_elements - 1) / options_.chunk_elements;
    first_chunk_.push_back(first_chunk_.back() + static_cast<std::uint32_t>(chunks));
    // In an all-reduce most members meet a chunk twice: on its way to its owner, and complete, one turn later.
    for (std::uint32_t hop = first_hop(segment); hop <= last_hop_; hop += options_.members) expected_ += chunks;
  }
  times_.resize(first_chunk_.back());
}

// A sum begins at the member after its segment's owner: then the owner is the last to add, and has it complete.
std::uint32_t Ring::origin(std::uint32_t segment) const {
  if (options_.operation == Operation::kBroadcast) return options_.root;
  return reduces(options_.operation) ? (segment + 1) % options_.members : segment;
}

std::uint32_t Ring::first_hop(std::uint32_t segment) const {
  const std::uint32_t away = (options_.self + options_.members - origin(segment)) % options_.members;
  return away == 0 ? options_.members : away;  // to where it began it comes after a whole turn
}

RingStep Ring::step(std::uint32_t segment, std::uint32_t chunk, std::uint32_t hop) const {
  const Range whole = segment_range(options_.elements, segments_, segment);
  const Range part = segment_range(whole.size(), chunks_of(segment), chunk);
  return {.segment = segment,
          .chunk = chunk,
          .range = {whole.first + part.first, whole.first + part.end},
          .add = hop > 0 && hop <= reducing_hops_,  // with hop 0 it is the member's own values already
          .keep = hop >= reducing_hops_,
          .hop = hop < last_hop_ ? hop + 1 : 0};
}

std::vector<RingStep> Ring::start() {
  RAVNEST_CHECK(!started_, "a ring starts twice");
  started_ = true;
  std::vector<RingStep> steps;
  for (std::uint32_t segment = 0; segment < segments_; ++segment) {
    if (origin(segment) != options_.self) continue;
    for (std::uint32_t chunk = 0; chunk < chunks_of(segment); ++chunk) steps.push_back(step(segment, chunk, 0));
  }
  return steps;
}

Result<RingStep> Ring::on_chunk(std::uint32_t segment, std::uint32_t chunk, std::uint32_t hop) {
  if (segment >= segments_ || chunk >= chunks_of(segment)) {
    return invalid("there is no chunk ", chunk, " of segment ", segment);
  }
  const std::uint32_t first = first_hop(segment);
  // Exactly those that come here, and each once: a chunk that is added twice, or a partial sum that is kept as a whole
  // one, would be a wrong number that nobody notices.
  if (hop < first || hop > last_hop_ || (hop - first) % options_.members != 0) {
    return invalid("chunk ", chunk, " of segment ", segment, " can not come here with hop ", hop);
  }
  std::uint8_t& times = times_[first_chunk_[segment] + chunk];
  const std::uint32_t before = (hop - first) / options_.members;
  if (before < times) return invalid("chunk ", chunk, " of segment ", segment, " has come with hop ", hop, " before");
  if (before > times) return invalid("chunk ", chunk, " of segment ", segment, " is complete before it passed here");
  ++times;
  ++received_;
  RAVNEST_CHECK(received_ <= expected_, "a ring has got ", received_, " chunks of ", expected_);
  return step(segment, chunk, hop);
}

}  // namespace ravnest::collective
