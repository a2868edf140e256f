#include "ravnest/object_store/retry.h"

#include <algorithm>
#include <cmath>

namespace ravnest::object_store {

bool can_be_sent_again(const HttpAnswer& answer, const ServerError& error) {
  switch (answer.status) {
    case 200:  // with an error in its body: the server noticed late
    case 408:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504: return true;
    case 400:
      return error.code == "RequestTimeout" || error.code == "BadDigest" || error.code == "IncompleteBody" ||
             error.code == "XAmzContentSHA256Mismatch";
    case 409: return error.code == "OperationAborted" || error.code == "ConditionalRequestConflict";
    default: return false;
  }
}

Duration pause_after(int failures, double random) {
  constexpr double kFirstSeconds = 0.5;
  constexpr double kMostSeconds = 20;
  const double whole = std::min(kMostSeconds, kFirstSeconds * std::exp2(std::clamp(failures - 1, 0, 16)));
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(whole * (1 - random / 2)));
}

Duration asked_pause(const HttpAnswer& answer) {
  const auto seconds = decode_count(answer.header("retry-after"));
  if (!seconds.ok()) return Duration::zero();
  return std::chrono::seconds(std::min<std::uint64_t>(*seconds, 60));
}

}  // namespace ravnest::object_store
