#include "ravnest/object_store/xml.h"

#include <algorithm>
#include <cstdint>

namespace ravnest::object_store {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";

bool is_name_byte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') || byte == '_' ||
         byte == '-' || byte == '.' || byte == ':' || static_cast<unsigned char>(byte) >= 0x80;
}

void append_utf8(std::string& to, std::uint32_t character) {
  const auto tail = [&](int shift) { to += static_cast<char>(0x80 | (character >> shift & 0x3f)); };
  if (character < 0x80) {
    to += static_cast<char>(character);
  } else if (character < 0x800) {
    to += static_cast<char>(0xc0 | character >> 6);
    tail(0);
  } else if (character < 0x10000) {
    to += static_cast<char>(0xe0 | character >> 12);
    tail(6);
    tail(0);
  } else {
    to += static_cast<char>(0xf0 | character >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

class XmlReader {
 public:
  explicit XmlReader(std::string_view text) : text_(text) {}

  Result<XmlElement> document() {
    if (Status before = skip_between(); !before.ok()) return before;
    XmlElement root;
    if (Status read = element(root, 1); !read.ok()) return read;
    if (Status after = skip_between(); !after.ok()) return after;
    if (at_ != text_.size()) return wrong("more than one element");
    return root;
  }

 private:
  Status wrong(std::string_view what) const { return corrupt("no XML that can be read: ", what, " at byte ", at_); }
  bool begins(std::string_view with) const { return text_.substr(at_).starts_with(with); }
  void skip_spaces() { at_ = std::min(text_.find_first_not_of(kSpaces, at_), text_.size()); }

  Status skip_past(std::string_view end) {
    const std::size_t found = text_.find(end, at_);
    if (found == std::string_view::npos) return wrong("something without an end");
    at_ = found + end.size();
    return {};
  }

  // Spaces, comments and instructions.
  Status skip_between() {
    for (;;) {
      skip_spaces();
      Status skipped;
      if (begins("<?")) {
        skipped = skip_past("?>");
      } else if (begins("<!--")) {
        skipped = skip_past("-->");
      } else {
        return {};
      }
      if (!skipped.ok()) return skipped;
    }
  }

  std::string_view name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name_byte(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  // Up to the tag's end, over attributes. True where the element ends with its tag.
  Result<bool> rest_of_tag() {
    for (;;) {
      if (at_ == text_.size()) return wrong("a tag without an end");
      const char byte = text_[at_++];
      if (byte == '>') return false;
      if (byte == '/' && begins(">")) {
        ++at_;
        return true;
      }
      if (byte == '<') return wrong("a tag within a tag");
      if (byte == '"' || byte == '\'') {
        if (Status quoted = skip_past(std::string_view(&byte, 1)); !quoted.ok()) return quoted;
      }
    }
  }

  Status element(XmlElement& into, int depth) {
    if (!begins("<")) return wrong("no element");
    if (depth > kMostXmlDepth) return wrong("elements that are nested too deep");
    if (++elements_ > kMostXmlElements) return wrong("too many elements");
    ++at_;
    const std::string_view full_name = name();
    if (full_name.empty()) return wrong("a tag without a name");
    const std::size_t colon = full_name.find(':');
    into.name = std::string(full_name.substr(colon == std::string_view::npos ? 0 : colon + 1));
    const auto ended = rest_of_tag();
    if (!ended.ok()) return ended.status();
    return *ended ? Status() : content(into, full_name, depth);
  }

  Status content(XmlElement& into, std::string_view full_name, int depth) {
    for (;;) {
      const std::size_t next = text_.find_first_of("<&", at_);
      if (next == std::string_view::npos) return wrong("an element without an end");
      into.text += text_.substr(at_, next - at_);
      at_ = next;
      Status read;
      if (text_[at_] == '&') {
        read = entity(into.text);
      } else if (begins("</")) {
        at_ += 2;
        if (name() != full_name) return wrong("an element that another one's tag ends");
        skip_spaces();
        if (!begins(">")) return wrong("a tag without an end");
        ++at_;
        return {};
      } else if (begins("<![CDATA[")) {
        const std::size_t begin = at_ + 9;
        read = skip_past("]]>");
        if (read.ok()) into.text += text_.substr(begin, at_ - 3 - begin);
      } else if (begins("<!--")) {
        read = skip_past("-->");
      } else if (begins("<?")) {
        read = skip_past("?>");
      } else {
        into.children.emplace_back();
        read = element(into.children.back(), depth + 1);
      }
      if (!read.ok()) return read;
    }
  }

  Status entity(std::string& to) {
    constexpr std::size_t kMostBytes = 10;
    const std::size_t end = text_.substr(at_, kMostBytes + 2).find(';');
    if (end == std::string_view::npos) return wrong("a & without an end");
    const std::string_view known = text_.substr(at_ + 1, end - 1);
    if (known == "amp")
      to += '&';
    else if (known == "lt")
      to += '<';
    else if (known == "gt")
      to += '>';
    else if (known == "quot")
      to += '"';
    else if (known == "apos")
      to += '\'';
    else if (!known.starts_with('#') || !numbered(known.substr(1), to))
      return wrong("an unknown entity");
    at_ += end + 1;
    return {};
  }

  static bool numbered(std::string_view number, std::string& to) {
    const std::uint32_t base = number.starts_with('x') ? 16 : 10;
    if (base == 16) number.remove_prefix(1);
    std::uint32_t character = 0;
    for (const char byte : number) {
      const int digit = byte >= '0' && byte <= '9'   ? byte - '0'
                        : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
                        : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10
                                                     : 16;
      if (digit >= static_cast<int>(base)) return false;
      character = character * base + static_cast<std::uint32_t>(digit);
      if (character > 0x10ffff) return false;
    }
    if (number.empty() || character == 0 || (character >= 0xd800 && character < 0xe000)) return false;
    append_utf8(to, character);
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t elements_ = 0;
};

}  // namespace

const XmlElement* XmlElement::child(std::string_view child_name) const {
  const auto found = std::ranges::find(children, child_name, &XmlElement::name);
  return found == children.end() ? nullptr : &*found;
}

std::string_view XmlElement::child_text(std::string_view child_name) const {
  const XmlElement* found = child(child_name);
  return found == nullptr ? std::string_view() : std::string_view(found->text);
}

Result<XmlElement> parse_xml(std::string_view text) { return XmlReader(text).document(); }

}  // namespace ravnest::object_store
