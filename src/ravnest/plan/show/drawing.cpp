#include "ravnest/plan/show/drawing.h"

#include <array>

#include "ravnest/base/printable.h"
#include "ravnest/base/text.h"

namespace ravnest::plan {

std::string escape_xml(std::string_view words) {
  std::string clean = printable(words);
  // The two characters of UTF-8 that XML forbids, U+FFFE and U+FFFF.
  for (const std::string_view forbidden : {"\xef\xbf\xbe", "\xef\xbf\xbf"}) {
    for (std::size_t at = clean.find(forbidden); at != std::string::npos; at = clean.find(forbidden, at))
      clean.replace(at, forbidden.size(), "?");
  }
  std::string result;
  for (const char each : clean) {
    switch (each) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      case '\'': result += "&#39;"; break;
      default: result += each;
    }
  }
  return result;
}

std::string shortened(std::string_view words, std::size_t most) {
  std::size_t characters = 0;
  std::size_t kept = 0;  // bytes of all but the last character allowed
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(words[i]) & 0xc0) != 0x80;
    if (begins && ++characters == most) kept = i;
  }
  return characters <= most ? std::string(words) : text(words.substr(0, kept), "\u2026");
}

std::string_view palette(int n) {
  static constexpr std::array<std::string_view, 10> kColours = {"#2563eb", "#16a34a", "#d97706", "#9333ea", "#0891b2",
                                                                "#db2777", "#65a30d", "#4f46e5", "#b45309", "#0f766e"};
  return kColours[static_cast<std::size_t>(n) % kColours.size()];
}

void Drawing::rectangle(double x, double y, double width, double height, std::string_view style) {
  body_ += text("<rect x=\"", x, "\" y=\"", y, "\" width=\"", width, "\" height=\"", height, "\" ", style, "/>\n");
}

void Drawing::line(double x1, double y1, double x2, double y2, std::string_view style) {
  body_ += text("<line x1=\"", x1, "\" y1=\"", y1, "\" x2=\"", x2, "\" y2=\"", y2, "\" ", style, "/>\n");
}

void Drawing::path(std::string_view steps, std::string_view style) {
  body_ += text("<path d=\"", steps, "\" ", style, "/>\n");
}

void Drawing::words(double x, double y, std::string_view words, const Lettering& lettering) {
  body_ += text("<text x=\"", x, "\" y=\"", y, "\" font-size=\"", lettering.size, "\" fill=\"", lettering.colour,
                "\" text-anchor=\"", lettering.anchor, "\"");
  if (lettering.bold) body_ += " font-weight=\"bold\"";
  if (lettering.turned != 0) body_ += text(" transform=\"rotate(", lettering.turned, " ", x, " ", y, ")\"");
  body_ += text(">", escape_xml(words), "</text>\n");
}

void Drawing::begin_group(std::string_view hint) { body_ += text("<g><title>", escape_xml(hint), "</title>\n"); }

void Drawing::end_group() { body_ += "</g>\n"; }

std::string Drawing::document(double width, double height, std::string_view title) const {
  return text("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"", height, "\" viewBox=\"0 0 ",
              width, " ", height, "\" font-family=\"system-ui, sans-serif\" role=\"img\">\n<title>", escape_xml(title),
              "</title>\n<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" ",
              "markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#6b7280\"/></marker></defs>\n",
              "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n", body_, "</svg>\n");
}

}  // namespace ravnest::plan
