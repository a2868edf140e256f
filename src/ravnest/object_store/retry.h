// When a request is sent again, and after how long: pure functions.
#pragma once

#include <string_view>

#include "ravnest/base/clock.h"
#include "ravnest/object_store/answers.h"
#include "ravnest/object_store/http.h"

namespace ravnest::object_store {

// Of an answer that is no success: whether the same request may succeed later. So it is with 408, 429 and most of 5xx,
// and with bytes that were damaged on their way.
bool can_be_sent_again(const HttpAnswer& answer, const ServerError& error);

// Before the attempt that follows so many failures: half a second, one, two, up to 20 s, less a random part of up to a
// half, so that those who failed together do not come back together. `random` is in [0, 1).
Duration pause_after(int failures, double random);

// What the server asks for by Retry-After, in seconds; a minute at most, and zero where it does not.
Duration asked_pause(const HttpAnswer& answer);

}  // namespace ravnest::object_store
