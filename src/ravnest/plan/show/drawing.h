// SVG, element by element: shapes and words at given places, escaped, in a document that any browser opens.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ravnest::plan {

// Fit for text and attributes: what is not valid XML text becomes a question mark, what has a meaning there an entity.
std::string escape_xml(std::string_view words);

// At most `most` characters, the last one an ellipsis where something was left out.
std::string shortened(std::string_view words, std::size_t most);

// A colour for the nth of several things; the palette begins anew when it ends.
std::string_view palette(int n);

// Of words and lines that only explain.
inline constexpr std::string_view kGrey = "#6b7280";

struct Lettering {
  int size = 12;
  std::string_view colour = "#1f2937";
  std::string_view anchor = "start";  // start, middle or end
  bool bold = false;
  double turned = 0;  // degrees, about where the words begin
};

class Drawing {
 public:
  // `style` is attributes, such as `fill="#fff" stroke="#000"`; it is taken as it is.
  void rectangle(double x, double y, double width, double height, std::string_view style);
  void line(double x1, double y1, double x2, double y2, std::string_view style);
  void path(std::string_view steps, std::string_view style);
  void words(double x, double y, std::string_view words, const Lettering& lettering = {});

  // What is drawn between the two shows `hint` under the mouse.
  void begin_group(std::string_view hint);
  void end_group();

  // The whole document; `title` names it for those who cannot see it. Every group must have ended.
  std::string document(double width, double height, std::string_view title) const;

 private:
  std::string body_;
};

}  // namespace ravnest::plan
