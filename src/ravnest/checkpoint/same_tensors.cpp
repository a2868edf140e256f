#include "ravnest/checkpoint/same_tensors.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "ravnest/checkpoint/tied_names.h"

namespace ravnest::checkpoint {
namespace {

// Sets of places in the model's order, each known by its first one.
class Sets {
 public:
  explicit Sets(std::size_t size) : before_(size) { std::iota(before_.begin(), before_.end(), std::size_t{0}); }

  std::size_t first(std::size_t place) {
    while (before_[place] != place) place = before_[place] = before_[before_[place]];
    return place;
  }
  void unite(std::size_t a, std::size_t b) {
    const std::size_t first_of_a = first(a);
    const std::size_t first_of_b = first(b);
    before_[std::max(first_of_a, first_of_b)] = std::min(first_of_a, first_of_b);
  }

 private:
  std::vector<std::size_t> before_;
};

}  // namespace

SameTensors::SameTensors(const std::vector<Part>& parts) {
  if (parts.empty()) return;
  const std::vector<std::string>& order = parts[0].order;
  std::map<std::string_view, std::size_t> places;
  for (const std::string& key : order) places.emplace(key, places.size());
  Sets sets(order.size());
  for (const Part& part : parts) {
    for (const auto& [alias, name] : without_aliases(part.weights).aliases) {
      if (places.contains(alias) && places.contains(name)) sets.unite(places.at(alias), places.at(name));
    }
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (sets.first(i) != i) first_names_.emplace(order[i], order[sets.first(i)]);
  }
}

const std::string& SameTensors::first_name(const std::string& name) const {
  const auto found = first_names_.find(name);
  return found == first_names_.end() ? name : found->second;
}

}  // namespace ravnest::checkpoint
