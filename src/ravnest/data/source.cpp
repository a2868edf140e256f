#include "ravnest/data/source.h"

#include <array>
#include <functional>

#include "ravnest/data/formats.h"

namespace ravnest::data {
namespace {

using Paths = std::vector<std::filesystem::path>;
using Read = std::function<Result<archive::Array>(const std::filesystem::path&)>;

Result<archive::Array> read_all(const Paths& paths, const Read& read) {
  std::vector<archive::Array> arrays;
  std::vector<std::string> names;
  for (const std::filesystem::path& path : paths) {
    Result<archive::Array> array = read(path);
    if (!array.ok()) return array;
    if (array->shape.empty()) return invalid(path.string(), " holds one number, not rows of samples");
    arrays.push_back(std::move(array).value());
    names.push_back(path.string());
  }
  return archive::joined(arrays, names);
}

Result<Samples> read_pair(const DataOptions& options, const Read& read_inputs, const Read& read_targets) {
  Result<archive::Array> inputs = read_all(options.inputs, read_inputs);
  if (!inputs.ok()) return inputs.status();
  Result<archive::Array> targets = read_all(options.targets, read_targets);
  if (!targets.ok()) return targets.status();
  return Samples{std::move(inputs).value(), std::move(targets).value()};
}

Read tensor_called(std::string_view name) {
  return [name](const std::filesystem::path& path) { return read_safetensors(path, name); };
}

Result<Samples> read_format(const DataOptions& options) {
  if (options.format == "npy") return read_pair(options, archive::read_npy, archive::read_npy);
  if (options.format == "idx") return read_pair(options, read_idx, read_idx);
  if (options.format == "cifar10") return read_cifar(options.inputs);
  if (options.format == "safetensors") return read_pair(options, tensor_called("inputs"), tensor_called("targets"));
  if (options.inputs.size() != 1)
    return invalid("the digits data set is one file, not ", options.inputs.size(),
                   "; name scikit-learn's digits.csv.gz");
  return read_digits(options.inputs.front());
}

std::string files(const Paths& paths) {
  std::string first = paths.front().string();
  return paths.size() == 1 ? first : text(first, " and ", paths.size() - 1, " more");
}

constexpr std::array<std::string_view, 5> kFormats = {"digits", "idx", "cifar10", "npy", "safetensors"};

}  // namespace

std::vector<std::string_view> format_names() { return {kFormats.begin(), kFormats.end()}; }

bool has_own_targets(std::string_view format) { return format == "digits" || format == "cifar10"; }

Result<Samples> read_source(const DataOptions& options) {
  bool known = false;
  for (const std::string_view format : kFormats) known = known || format == options.format;
  if (!known) return invalid("there is no data format \"", options.format, "\"; there are ", join(kFormats));
  if (options.inputs.empty()) return invalid("data of format \"", options.format, "\" need files of inputs");
  if (has_own_targets(options.format) != options.targets.empty())
    return invalid("data of format \"", options.format, "\" ",
                   options.targets.empty() ? "need files of targets"
                                           : "have their targets in the same files; leave out \"targets\"");
  Result<Samples> samples = read_format(options);
  if (!samples.ok()) return samples;
  if (samples->inputs.rows() != samples->targets.rows())
    return invalid("there are ", samples->inputs.rows(), " inputs in ", files(options.inputs), ", and ",
                   samples->targets.rows(), " targets in ", files(options.targets), "; each input needs one target");
  return samples;
}

}  // namespace ravnest::data
