// The XML that S3 answers with: elements and text, read without trust.
//
// No more than that: a DOCTYPE is refused (entities of a server's own have been used to fill memories), attributes are
// passed over, and a name's prefix is dropped. Memory is proportional to the text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"

namespace ravnest::object_store {

struct XmlElement {
  std::string name;
  std::string text;  // of this element alone; spaces at its ends as they are
  std::vector<XmlElement> children;

  // The first of that name, or null.
  const XmlElement* child(std::string_view child_name) const;
  // The text of that child; empty where there is none.
  std::string_view child_text(std::string_view child_name) const;
};

inline constexpr int kMostXmlDepth = 16;
inline constexpr std::size_t kMostXmlElements = 100'000;

// The one element that the text consists of. kCorrupt, with the position, where it is not XML or beyond these limits.
Result<XmlElement> parse_xml(std::string_view text);

}  // namespace ravnest::object_store
