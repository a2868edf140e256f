#include <charconv>
#include <cmath>
#include <cstring>
#include <span>

#include "ravnest/base/printable.h"
#include "ravnest/data/formats.h"
#include "ravnest/data/gunzip.h"

namespace ravnest::data {
namespace {

constexpr std::size_t kPixels = 64;
constexpr int kDigits = 10;
// A hundred times the size of scikit-learn's file.
constexpr std::size_t kMostText = std::size_t{32} << 20;

template <class T>
Slice slice_of_numbers(const std::vector<T>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return slice_of({bytes.begin(), bytes.end()});
}

Result<float> number(std::string_view field, std::string_view name, std::size_t line, std::size_t column) {
  while (!field.empty() && field.front() == ' ') field.remove_prefix(1);
  while (!field.empty() && field.back() == ' ') field.remove_suffix(1);
  float value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size() || !std::isfinite(value))
    return corrupt(name, ", line ", line, ", number ", column, ": \"", printable(field.substr(0, 40)),
                   "\" is not a number");
  return value;
}

// The numbers of one line, the digit last.
Status read_line(std::string_view written, std::string_view name, std::size_t line, std::vector<float>& pixels,
                 std::vector<std::int64_t>& digits) {
  for (std::size_t column = 1; column <= kPixels + 1; ++column) {
    const std::size_t comma = written.find(',');
    if ((comma == std::string_view::npos) != (column == kPixels + 1))
      return corrupt(name, ", line ", line, ": ", column > kPixels ? "more" : "fewer", " than the ", kPixels,
                     " numbers and the digit that belong there");
    const Result<float> value = number(written.substr(0, comma), name, line, column);
    if (!value.ok()) return value.status();
    if (column <= kPixels) {
      pixels.push_back(*value);
      written.remove_prefix(comma + 1);
    } else if (*value >= 0 && *value < kDigits && *value == std::floor(*value)) {
      digits.push_back(static_cast<std::int64_t>(*value));
    } else {
      return corrupt(name, ", line ", line, ": ", *value, " is not a digit from 0 to 9");
    }
  }
  return {};
}

}  // namespace

Result<Samples> decode_digits(const Slice& file, std::string_view name) {
  std::vector<std::byte> unpacked;
  ByteSpan content = file.bytes;
  if (is_gzip(content)) {
    Result<std::vector<std::byte>> all = gunzip(content, kMostText + 1, name);
    if (!all.ok()) return all.status();
    unpacked = std::move(all).value();
    content = unpacked;
  }
  if (content.size() > kMostText)
    return unsupported(name, ": more than ", kMostText >> 20,
                       " MiB of text, which is not the digits data set; save other data with numpy.save and use format "
                       "\"npy\"");
  std::vector<float> pixels;
  std::vector<std::int64_t> digits;
  std::string_view rest = as_string_view(content);
  for (std::size_t line = 1; !rest.empty(); ++line) {
    const std::size_t end = rest.find('\n');
    std::string_view written = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (written.ends_with('\r')) written.remove_suffix(1);
    if (written.empty() && rest.empty()) break;
    if (Status status = read_line(written, name, line, pixels, digits); !status.ok()) return status;
  }
  if (digits.empty()) return corrupt(name, ": there are no lines in it");
  const auto count = static_cast<std::int64_t>(digits.size());
  return Samples{{DType::kFloat32, {count, 1, 8, 8}, slice_of_numbers(pixels)},
                 {DType::kInt64, {count}, slice_of_numbers(digits)}};
}

Result<Samples> read_digits(const std::filesystem::path& path) {
  const Result<Slice> file = archive::map_file(path);
  return file.ok() ? decode_digits(*file, path.string()) : file.status();
}

}  // namespace ravnest::data
