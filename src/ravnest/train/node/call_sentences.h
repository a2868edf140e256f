// What the root says to people of what all nodes told it about a call.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/wire/call_messages.h"

namespace ravnest::train {

// Whether all nodes are ready for the same thing; the first is the root. A failure names the nodes that differ, in
// what, and what to do. `each` is what they are to people.
Status check_alike(const std::vector<wire::Ready>& ready, const std::vector<std::string>& nodes,
                   std::string_view each = "node");

// One sentence for all nodes where some, by stage, could not save: who, why, and who could. None where all could.
std::optional<std::string> sentence_of_unsaved(const std::vector<wire::Account>& accounts,
                                               const std::vector<std::string>& nodes);

}  // namespace ravnest::train
