// Whether a text is well-formed XML, as far as a drawing needs to be: for tests.
#pragma once

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/text.h"

namespace ravnest::plan {

// Balanced tags under one root, quoted attributes that occur once each, known entities only, no stray signs. Empty
// where all is well, else what is wrong and where.
class XmlWalk {
 public:
  explicit XmlWalk(std::string_view xml) : xml_(xml) {}

  std::string complaint() {
    while (complaint_.empty() && at_ < xml_.size()) xml_[at_] == '<' ? tag() : words();
    if (complaint_.empty() && !open_.empty()) fail(text("<", open_.back(), "> is never closed"));
    if (complaint_.empty() && roots_ != 1) fail(text(roots_, " roots"));
    return complaint_;
  }

 private:
  void fail(const std::string& what) {
    if (complaint_.empty()) complaint_ = text(what, " at byte ", at_, ": ", xml_.substr(at_, 60));
  }
  bool take(std::string_view sign) {
    if (!xml_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }
  std::string name() {
    const std::size_t first = at_;
    while (at_ < xml_.size() && (std::isalnum(static_cast<unsigned char>(xml_[at_])) != 0 || xml_[at_] == '-')) ++at_;
    if (at_ == first) fail("a name was expected");
    return std::string(xml_.substr(first, at_ - first));
  }
  void space() {
    while (at_ < xml_.size() && std::isspace(static_cast<unsigned char>(xml_[at_])) != 0) ++at_;
  }

  void words() {
    if (open_.empty() && std::isspace(static_cast<unsigned char>(xml_[at_])) == 0)
      return fail("words outside the root");
    character('<');
  }
  void character(char forbidden) {
    if (xml_[at_] == forbidden) return fail("a stray sign");
    if (xml_[at_] != '&') {
      ++at_;
      return;
    }
    for (const std::string_view entity : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"}) {
      if (take(entity)) return;
    }
    fail("an unknown entity");
  }

  void tag() {
    if (take("</")) {
      const std::string closed = name();
      if (open_.empty() || open_.back() != closed) return fail(text("</", closed, "> closes nothing"));
      open_.pop_back();
      if (!take(">")) fail("> was expected");
      return;
    }
    take("<");
    if (open_.empty()) ++roots_;
    open_.push_back(name());
    std::vector<std::string> seen;
    for (space(); complaint_.empty() && !take(">"); space()) {
      if (take("/>")) return open_.pop_back();
      attribute(seen);
    }
  }
  void attribute(std::vector<std::string>& seen) {
    const std::string key = name();
    for (const std::string& each : seen) {
      if (each == key) return fail(text("attribute ", key, " twice"));
    }
    seen.push_back(key);
    if (!take("=\"")) return fail("=\" was expected");
    while (complaint_.empty() && !take("\"")) {
      if (at_ >= xml_.size()) return fail("an attribute without an end");
      character('<');
    }
  }

  std::string_view xml_;
  std::size_t at_ = 0;
  std::vector<std::string> open_;
  int roots_ = 0;
  std::string complaint_;
};

inline std::string why_not_well_formed(std::string_view xml) { return XmlWalk(xml).complaint(); }

}  // namespace ravnest::plan
