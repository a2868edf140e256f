#include "ravnest/plan/predict/segments.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

namespace ravnest::plan {
namespace {

int stage_at(int position, const std::vector<int>& cuts) {
  return static_cast<int>(std::upper_bound(cuts.begin(), cuts.end(), position) - cuts.begin());
}

// What crosses each position: sum of the bytes that would be sent there, both ways.
std::vector<std::int64_t> crossing(const ModelCosts& costs) {
  std::vector<std::int64_t> sums(costs.operators.size() + 2, 0);
  for (const SentCost& each : costs.sent) {
    if (each.read_at.empty()) continue;
    const std::int64_t bytes = each.bytes + each.gradient_bytes;
    sums[each.made_at + 1] += bytes;
    sums[each.read_at.back() + 1] -= bytes;
  }
  std::partial_sum(sums.begin(), sums.end(), sums.begin());
  return sums;
}

}  // namespace

std::vector<StageLoad> stage_loads(const ModelCosts& costs, const std::vector<int>& cuts) {
  const int operators = static_cast<int>(costs.operators.size());
  const int last = static_cast<int>(cuts.size());
  std::vector<StageLoad> loads(cuts.size() + 1);
  for (int p = 0; p < operators; ++p) {
    StageLoad& load = loads[stage_at(p, cuts)];
    const OperatorCost& each = costs.operators[p];
    load.work += each.work;
    load.saved_bytes += each.saved_bytes;
    load.working_bytes = std::max(load.working_bytes, each.working_bytes);
  }
  for (const int cut : cuts) {
    loads[stage_at(cut, cuts)].saved_bytes += costs.operators[cut].again_bytes;
  }
  for (const StoredCost& each : costs.stored) {
    std::set<int> stages;
    for (const int use : each.used_at) stages.insert(stage_at(use, cuts));
    for (const int stage : stages) {
      loads[stage].stored_bytes += each.bytes;
      if (each.trainable) loads[stage].trainable_bytes += each.bytes;
    }
    StageLoad& owner = loads[*stages.begin()];
    owner.owned_bytes += averaged_bytes(each);
    if (each.parameter) owner.owned_parameters += each.elements;
  }
  for (const SentCost& each : costs.sent) {
    const int maker = each.made_at < 0 ? 0 : stage_at(each.made_at, cuts);
    std::set<int> readers;
    for (const int read : each.read_at) readers.insert(std::min(stage_at(read, cuts), last));
    readers.erase(maker);
    if (!readers.empty()) loads[maker].kept_bytes += each.bytes + each.gradient_bytes;
    for (const int reader : readers) {
      loads[reader].received_bytes += each.bytes;
      loads[reader].returned_bytes += each.gradient_bytes;
      loads[maker].sent_bytes += each.bytes;
      loads[maker].gradient_bytes += each.gradient_bytes;
    }
  }
  return loads;
}

std::vector<int> cut_positions(const ModelCosts& costs, int limit) {
  const int operators = static_cast<int>(costs.operators.size());
  std::vector<int> allowed;
  for (int p = 1; p < operators; ++p) {
    if (costs.operators[p].cut_allowed) allowed.push_back(p);
  }
  std::vector<int> positions{0};
  if (static_cast<int>(allowed.size()) <= limit - 2) {
    positions.insert(positions.end(), allowed.begin(), allowed.end());
  } else {
    const std::vector<std::int64_t> bytes = crossing(costs);
    double total = 0;
    for (const OperatorCost& each : costs.operators) total += each.work;
    std::vector<double> before(costs.operators.size() + 1, 0);
    for (std::size_t p = 0; p < costs.operators.size(); ++p) {
      // A little for every operator, so that models whose work is all in one place still have places to cut elsewhere.
      before[p + 1] = before[p] + costs.operators[p].work + total / static_cast<double>(operators);
    }
    const int buckets = limit - 2;
    std::size_t next = 0;
    for (int bucket = 0; bucket < buckets; ++bucket) {
      const double end = before.back() * (bucket + 1) / buckets;
      int best = -1;
      for (; next < allowed.size() && (before[allowed[next]] <= end || bucket + 1 == buckets); ++next) {
        const int p = allowed[next];
        if (best < 0 || bytes[p] < bytes[best]) best = p;
      }
      if (best >= 0) positions.push_back(best);
    }
  }
  if (operators > 0) positions.push_back(operators);
  return positions;
}

Segments::Segments(const ModelCosts& costs, std::vector<int> positions) : positions_(std::move(positions)) {
  const std::size_t places = positions_.size();
  work_.assign(places, 0);
  saved_.assign(places, 0);
  again_.assign(places, 0);
  owned_.assign(places, 0);
  owned_bytes_.assign(places, 0);
  std::vector<std::int64_t> owned_at(costs.operators.size(), 0);
  std::vector<std::int64_t> bytes_at(costs.operators.size(), 0);
  for (const StoredCost& each : costs.stored) {
    if (each.parameter) owned_at[each.used_at.front()] += each.elements;
    bytes_at[each.used_at.front()] += averaged_bytes(each);
  }
  for (std::size_t k = 1; k < places; ++k) {
    work_[k] = work_[k - 1];
    saved_[k] = saved_[k - 1];
    owned_[k] = owned_[k - 1];
    owned_bytes_[k] = owned_bytes_[k - 1];
    for (int p = positions_[k - 1]; p < positions_[k]; ++p) {
      const auto at = p;
      work_[k] += costs.operators[at].work;
      saved_[k] += costs.operators[at].saved_bytes;
      owned_[k] += owned_at[at];
      owned_bytes_[k] += bytes_at[at];
    }
    if (k + 1 < places) again_[k] = costs.operators[positions_[k]].again_bytes;
  }
  most_stages_ = 0;
  for (int begin = 0, end = 1; end <= count(); ++end) {
    if (!owns_parameters(begin, end)) continue;
    ++most_stages_;
    begin = end;
  }
  cells_.resize(places * (places - 1) / 2);
  for (int begin = 0; begin < count(); ++begin) fill_row(costs, begin);
}

// Walks from the segment's begin to the model's end, adding what each operator brings in and noting the sums at every
// position on the way.
void Segments::fill_row(const ModelCosts& costs, int begin) {
  const int first = positions_[begin];
  const int operators = static_cast<int>(costs.operators.size());
  std::vector<Cell> brought(operators + 1);  // per operator
  for (const StoredCost& each : costs.stored) {
    const auto use = std::lower_bound(each.used_at.begin(), each.used_at.end(), first);
    if (use == each.used_at.end()) continue;
    brought[*use].stored_bytes += each.bytes;
    if (each.trainable) brought[*use].trainable_bytes += each.bytes;
  }
  for (const SentCost& each : costs.sent) {
    if (each.read_at.empty()) continue;
    const bool made_here = begin == 0 || each.made_at >= first;
    if (made_here) {
      const int made = std::max(each.made_at, first);
      brought[made].sent_bytes += each.bytes;
      brought[made].gradient_bytes += each.gradient_bytes;
      const auto gone = each.read_at.back();
      brought[gone].sent_bytes -= each.bytes;
      brought[gone].gradient_bytes -= each.gradient_bytes;
      continue;
    }
    const auto read = std::lower_bound(each.read_at.begin(), each.read_at.end(), first);
    if (read == each.read_at.end()) continue;
    // What only the model's end reads is read by the last stage.
    const auto at = std::min(*read, operators - 1);
    brought[at].received_bytes += each.bytes;
    brought[at].returned_bytes += each.gradient_bytes;
  }
  Cell sum;
  for (int end = begin + 1; end <= count(); ++end) {
    for (int p = positions_[end - 1]; p < positions_[end]; ++p) {
      const auto at = p;
      sum.stored_bytes += brought[at].stored_bytes;
      sum.trainable_bytes += brought[at].trainable_bytes;
      sum.received_bytes += brought[at].received_bytes;
      sum.returned_bytes += brought[at].returned_bytes;
      sum.sent_bytes += brought[at].sent_bytes;
      sum.gradient_bytes += brought[at].gradient_bytes;
      sum.working_bytes = std::max(sum.working_bytes, costs.operators[at].working_bytes);
    }
    cell(begin, end) = sum;
  }
  // The last stage sends nothing on: what the model returns stays there.
  cell(begin, count()).sent_bytes = 0;
  cell(begin, count()).gradient_bytes = 0;
}

StageLoad Segments::load(int begin, int end) const {
  const Cell& own = cell(begin, end);
  StageLoad load;
  load.work = work(begin, end);
  load.stored_bytes = own.stored_bytes;
  load.trainable_bytes = own.trainable_bytes;
  load.owned_bytes = owned_bytes_[end] - owned_bytes_[begin];
  load.owned_parameters = owned_[end] - owned_[begin];
  load.saved_bytes = saved_[end] - saved_[begin] + again_[begin];
  load.working_bytes = own.working_bytes;
  load.received_bytes = own.received_bytes;
  load.returned_bytes = own.returned_bytes;
  load.sent_bytes = own.sent_bytes;
  load.gradient_bytes = own.gradient_bytes;
  load.kept_bytes = own.sent_bytes + own.gradient_bytes;
  return load;
}

}  // namespace ravnest::plan
