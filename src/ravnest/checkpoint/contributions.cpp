#include "ravnest/checkpoint/contributions.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "ravnest/archive/elements.h"
#include "ravnest/base/bytes.h"

namespace ravnest::checkpoint {
namespace {

std::vector<std::byte> element_bytes(const archive::Payload& payload) {
  std::vector<std::byte> bytes;
  bytes.reserve(archive::byte_count(payload));
  static_cast<void>(archive::feed_elements(payload, [&](ByteSpan span) {
    bytes.insert(bytes.end(), span.begin(), span.end());
    return Status();
  }));
  return bytes;
}

// The elements of a tensor as they lie in memory; copied only where they do not lie together.
class Elements {
 public:
  explicit Elements(const archive::Payload& payload) {
    if (archive::is_contiguous(payload)) {
      const std::size_t at = static_cast<std::size_t>(payload.storage_offset) * item_size(payload.dtype);
      bytes_ = archive::byte_count(payload) == 0 ? ByteSpan()
                                                 : payload.storage->bytes.subspan(at, archive::byte_count(payload));
    } else {
      copied_ = element_bytes(payload);
      bytes_ = copied_;
    }
  }
  Elements(const Elements&) = delete;
  Elements& operator=(const Elements&) = delete;

  ByteSpan bytes() const { return bytes_; }

 private:
  std::vector<std::byte> copied_;
  ByteSpan bytes_;
};

bool equal_values(const archive::Payload& a, const archive::Payload& b) {
  if (a.dtype != b.dtype || a.sizes != b.sizes) return false;
  if (archive::same_tensor(a, b)) return true;
  const Elements of_a(a);
  const Elements of_b(b);
  return of_a.bytes().empty() || std::memcmp(of_a.bytes().data(), of_b.bytes().data(), of_a.bytes().size()) == 0;
}

Status differing(const Contribution& a, const Contribution& b, std::string_view what) {
  return corrupt(what, " is not the same in ", *a.part, " and ", *b.part,
                 ", which both have it; take another checkpoint");
}

bool has_other_piece(const Contribution& a, const Contribution& b) {
  return (a.piece == nullptr) != (b.piece == nullptr) ||
         (a.piece != nullptr && (a.piece->shape != b.piece->shape || a.payload->dtype != b.payload->dtype));
}

Result<archive::Payload> join_pieces(std::vector<Contribution> pieces, std::string_view what) {
  std::ranges::stable_sort(pieces, {}, [](const Contribution& each) { return each.piece->offset; });
  archive::Payload joined = *pieces[0].payload;
  joined.sizes = pieces[0].piece->shape;
  joined.storage_offset = 0;
  joined.strides.assign(joined.sizes.size(), 1);
  for (std::size_t i = joined.sizes.size(); i-- > 1;)
    joined.strides[i - 1] = joined.strides[i] * std::max<std::int64_t>(joined.sizes[i], 1);
  const auto all = static_cast<std::uint64_t>(archive::element_count(joined));
  // Counted before it is allocated: a file may claim any shape.
  std::uint64_t position = 0;
  const Contribution* last = nullptr;
  std::vector<const Contribution*> in_turn;
  for (const Contribution& each : pieces) {
    if (each.piece->length == 0) continue;
    if (last != nullptr && *each.piece == *last->piece) {
      if (!equal_values(*each.payload, *last->payload)) return differing(*last, each, what);
      continue;
    }
    if (each.piece->offset > position)
      return not_found("no part has elements ", position, " to ", each.piece->offset - 1, " of ", what);
    if (each.piece->offset < position)
      return corrupt(*each.part, " and ", *last->part, " have pieces of ", what, " that overlap");
    position += each.piece->length;
    last = &each;
    in_turn.push_back(&each);
  }
  if (position != all) return not_found("no part has elements ", position, " to ", all - 1, " of ", what);
  auto bytes = std::make_shared<std::vector<std::byte>>();
  bytes->reserve(all * item_size(joined.dtype));
  for (const Contribution* each : in_turn) {
    const Elements elements(*each->payload);
    bytes->insert(bytes->end(), elements.bytes().begin(), elements.bytes().end());
  }
  const ByteSpan span = *bytes;
  joined.storage = std::make_shared<archive::Storage>(archive::Storage{std::move(bytes), span});
  return joined;
}

}  // namespace

Result<archive::Payload> join(const std::vector<Contribution>& contributions, std::string_view what) {
  const Contribution& first = contributions.front();
  for (const Contribution& each : contributions) {
    if (has_other_piece(first, each)) return differing(first, each, what);
  }
  if (first.piece != nullptr) return join_pieces(contributions, what);
  for (const Contribution& each : contributions) {
    if (!equal_values(*first.payload, *each.payload)) return differing(first, each, what);
  }
  return *first.payload;
}

}  // namespace ravnest::checkpoint
