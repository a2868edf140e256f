#include "ravnest/train/loop/batch_counts.h"

#include <utility>

namespace ravnest::train {

std::string counted(std::uint64_t batches) {
  if (batches == 1) return "1 batch";
  return text(batches == 0 ? "no" : std::to_string(batches), " batches");
}

Result<std::optional<std::string>> BatchCounts::ended(std::uint64_t number, std::uint64_t batches) {
  const std::optional<Count> before = std::exchange(last_, Count{number, batches});
  if (batches == 0) {
    const std::string gave_none = text(what_, " gave no batch in ", unit_, " ", number);
    if (!before) return invalid(gave_none, ": ", kWhyEmpty);
    return invalid(gave_none, ", after ", counted(before->batches), " in ", unit_, " ", before->number,
                   ": it can be iterated only once, as a generator can; ", kIterateAgain);
  }
  if (!before || batches >= before->batches) return std::optional<std::string>();
  return std::optional(text(what_, " gave ", counted(batches), " in ", unit_, " ", number, ", and ",
                            counted(before->batches), " in ", unit_, " ", before->number));
}

}  // namespace ravnest::train
