// The elements of a stored tensor, in the order that files want them.
#pragma once

#include <cstdint>
#include <functional>

#include "ravnest/archive/payload.h"
#include "ravnest/base/bytes.h"
#include "ravnest/base/status.h"

namespace ravnest::archive {

// Takes bytes in order; a failure ends whatever feeds it.
using Sink = std::function<Status(ByteSpan)>;

// Feeds the elements in row-major order, without gaps, whatever the payload's strides: straight from its storage where
// they lie so, else through a buffer of fixed size. The payload must have passed ir::check. Returns the sink's failure.
Status feed_elements(const Payload& payload, const Sink& sink);

// What feed_elements will feed.
std::uint64_t byte_count(const Payload& payload);

}  // namespace ravnest::archive
