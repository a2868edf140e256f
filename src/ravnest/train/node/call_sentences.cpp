#include "ravnest/train/node/call_sentences.h"

#include <algorithm>

#include "ravnest/base/text.h"

namespace ravnest::train {

Status check_alike(const std::vector<wire::Ready>& ready, const std::vector<std::string>& nodes,
                   std::string_view each) {
  const wire::Ready& own = ready.front();
  for (std::size_t i = 1; i < ready.size(); ++i) {
    const wire::Ready& theirs = ready[i];
    if (theirs.call != own.call) {
      return invalid(nodes.front(), " runs ", own.call, "() while ", nodes[i], " runs ", theirs.call,
                     "(): start the same script on every ", each);
    }
    for (const auto& [name, value] : own.settings) {
      const auto found = std::ranges::find(theirs.settings, name, &wire::Setting::name);
      const std::string other = found == theirs.settings.end() ? "not there" : found->value;
      if (other != value) {
        return invalid(name, " is ", value, " on ", nodes.front(), " and ", other, " on ", nodes[i],
                       ": start the same script on every ", each);
      }
    }
  }
  return {};
}

std::optional<std::string> sentence_of_unsaved(const std::vector<wire::Account>& accounts,
                                               const std::vector<std::string>& nodes) {
  std::vector<std::string> failed;
  std::vector<std::string> saved;
  for (std::size_t stage = 0; stage < accounts.size(); ++stage) {
    if (const auto& unsaved = accounts[stage].unsaved) {
      failed.push_back(text(nodes[stage], " (stage ", stage, ") failed: ", *unsaved));
    } else {
      saved.push_back(nodes[stage]);
    }
  }
  if (failed.empty()) return std::nullopt;
  return text(join(failed, "; "), saved.empty() ? "" : text("; saved are the stages of ", join(saved)));
}

}  // namespace ravnest::train
