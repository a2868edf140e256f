#include "ravnest/checkpoint/option_json.h"

#include <cmath>

namespace ravnest::checkpoint {
namespace {

constexpr const char* kNumber = "number";

struct OptionToJson {
  nlohmann::json operator()(bool value) const { return value; }
  nlohmann::json operator()(std::int64_t value) const { return value; }
  nlohmann::json operator()(double value) const {
    if (std::isfinite(value)) return value;
    return {{kNumber, number_to_json(value)}};
  }
  nlohmann::json operator()(const std::string& value) const { return value; }
  nlohmann::json operator()(const std::vector<double>& values) const {
    nlohmann::json list = nlohmann::json::array();
    for (const double value : values) list.push_back(number_to_json(value));
    return list;
  }
};

optim::Option option_from(const Field& field) {
  const nlohmann::json& value = field.json();
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return field.integer();
  if (value.is_number()) return value.get<double>();
  if (value.is_object()) return field[kNumber].number();
  std::vector<double> numbers;
  field.for_each([&](const Field& number) { numbers.push_back(number.number()); });
  return numbers;
}

}  // namespace

nlohmann::json options_to_json(const optim::Options& options) {
  nlohmann::json object = nlohmann::json::object();
  for (const auto& [name, value] : options) object[name] = std::visit(OptionToJson(), value);
  return object;
}

optim::Options options_from(const Field& field) {
  optim::Options options;
  field.for_each_member(
      [&](const std::string& name, const Field& value) { options.emplace(name, option_from(value)); });
  return options;
}

}  // namespace ravnest::checkpoint
