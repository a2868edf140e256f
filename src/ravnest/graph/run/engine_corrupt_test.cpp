// Archives that lie, up to the engine: what the reader lets through is refused or runs, within bounds of memory.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/archive/zip.h"
#include "ravnest/base/file.h"
#include "ravnest/graph/ir/testing/models.h"
#include "ravnest/graph/run/engine.h"

namespace ravnest::graph {
namespace {

using ir::testing::golden;
using nlohmann::json;

using Records = std::vector<std::pair<std::string, std::string>>;

Records records_of(const std::string& model) {
  const std::string bytes = read_file(golden(model)).value();
  const archive::ZipReader zip = archive::ZipReader::open(as_byte_span(bytes)).value();
  Records records;
  for (const std::string& name : zip.names()) records.emplace_back(name, as_string_view(zip.record(name).value()));
  return records;
}

Result<ir::Model> read(const Records& records) {
  ByteWriter out;
  archive::ZipWriter writer([&](ByteSpan part) {
    out.bytes(part);
    return Status();
  });
  for (const auto& [name, contents] : records) EXPECT_TRUE(writer.add(name, contents).ok());
  EXPECT_TRUE(writer.finish().ok());
  return ir::testing::read_back(out.take());
}

// While it lives, the process gets no more than so many bytes beyond what it has.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::size_t headroom_bytes) {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    ::getrlimit(RLIMIT_AS, &before_);
    const rlimit limit{pages * static_cast<std::size_t>(::getpagesize()) + headroom_bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_AS, &limit);
  }
  ~MemoryLimit() { ::setrlimit(RLIMIT_AS, &before_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit before_{};
};

void collect(json& value, std::vector<std::pair<json*, std::size_t>>& places) {
  if (!value.is_structured()) return;
  for (std::size_t i = 0; i < value.size(); ++i) {
    places.emplace_back(&value, i);
    collect(*std::next(value.begin(), static_cast<std::ptrdiff_t>(i)), places);
  }
}

// One place of the document is left out, doubled, or says something else.
void add_lie(json& document, std::minstd_rand& random) {
  static const std::vector<json> lies = {-1,        0,         1,   1LL << 31,     1LL << 40,
                                         INT64_MAX, INT64_MIN, "",  "x",           "../../escape",
                                         nullptr,   true,      1.5, json::array(), json::object()};
  std::vector<std::pair<json*, std::size_t>> places;
  collect(document, places);
  const auto [holder, index] = places[random() % places.size()];
  const auto place = std::next(holder->begin(), static_cast<std::ptrdiff_t>(index));
  switch (random() % 4) {
    case 0: holder->erase(place); break;
    case 1:
      if (holder->is_array()) {
        holder->insert(place, json(*place));
        break;
      }
      [[fallthrough]];
    default: *place = lies[random() % lies.size()];
  }
}

struct Outcomes {
  int refused = 0;
  int failed = 0;
  int ran = 0;
};

// torch may refuse what it is given; nothing else may come out of a run.
void run(const Engine& engine, const std::vector<c10::IValue>& inputs, Outcomes& outcomes) {
  try {
    engine.run(Mode::kTrain, inputs);
    engine.run(Mode::kEval, inputs);
    ++outcomes.ran;
  } catch (const c10::Error&) {
    ++outcomes.failed;
  }
}

Outcomes tell_lies(const std::string& model, const std::vector<c10::IValue>& inputs, unsigned seed) {
  const Records good = records_of(model);
  std::vector<std::size_t> documents;
  for (std::size_t i = 0; i < good.size(); ++i) {
    if (good[i].first.ends_with(".json") && json::parse(good[i].second).is_structured() && good[i].second.size() > 2)
      documents.push_back(i);
  }
  std::minstd_rand random(seed);
  Outcomes outcomes;
  for (int i = 0; i < 300; ++i) {
    Records records = good;
    std::string& contents = records[documents[random() % documents.size()]].second;
    json document = json::parse(contents);
    add_lie(document, random);
    contents = document.dump();
    const Result<ir::Model> read_model = read(records);
    if (!read_model.ok()) {
      EXPECT_NE(read_model.status().message(), "");
      ++outcomes.refused;
      continue;
    }
    const Result<Engine> engine = Engine::create(*read_model);
    if (engine.ok())
      run(*engine, inputs, outcomes);
    else
      ++outcomes.refused;
  }
  return outcomes;
}

TEST(EngineOfALyingArchive, RefusesItOrRunsWithinBounds) {
  const std::vector<std::pair<std::string, std::vector<c10::IValue>>> models = {
      {"normalised", {at::ones({6, 4})}},
      {"tied", {at::zeros({3, 5}, at::kLong)}},
      {"masked", {at::zeros({3, 5}, at::kLong), at::zeros({3, 5}, at::kBool)}},
      {"windowed", {at::ones({4, 2})}}};
  for (const auto& [model, inputs] : models) {
    Outcomes untouched;
    run(Engine::load(golden(model)).value(), inputs, untouched);  // from here on torch has what it needs
    ASSERT_EQ(untouched.ran, 1) << model;
    const MemoryLimit limit(std::size_t{400} << 20);
    const Outcomes outcomes = tell_lies(model, inputs, 1);
    EXPECT_GT(outcomes.refused, 100) << model;
    EXPECT_GT(outcomes.ran, 10) << model << ": many members are not needed";
  }
}

TEST(EngineOfALyingArchive, NoticesEveryRecordThatIsMissing) {
  const Records good = records_of("normalised");
  int needed = 0;
  for (std::size_t missing = 0; missing < good.size(); ++missing) {
    Records records = good;
    records.erase(records.begin() + static_cast<std::ptrdiff_t>(missing));
    const std::string& name = good[missing].first;
    const bool is_needed = name.ends_with("models/model.json") || name.find("/weights/") != std::string::npos;
    needed += is_needed;
    EXPECT_TRUE(!is_needed || !read(records).ok()) << name;
  }
  EXPECT_GT(needed, 7);
}

TEST(EngineOfALyingArchive, IsNotGivenAWeightThatIsShorterThanItSays) {
  for (const double left : {0.5, 0.0}) {
    Records records = records_of("normalised");
    for (auto& [name, contents] : records) {
      if (name.find("/weights/weight_") != std::string::npos)
        contents.resize(static_cast<std::size_t>(left * static_cast<double>(contents.size())));
    }
    EXPECT_EQ(read(records).status().code(), Code::kCorrupt);
  }
}

}  // namespace
}  // namespace ravnest::graph
