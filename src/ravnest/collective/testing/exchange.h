// What tests of exchanges share: a ring of exchanges whose messages arrive in any order, and values that can be
// checked.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "ravnest/collective/exchange.h"

namespace ravnest::collective {

// Small whole numbers: their sums have no rounding, whatever the order.
template <class T>
std::vector<std::vector<T>> whole_numbers(std::uint32_t members, std::size_t elements, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<T>> values(members, std::vector<T>(elements));
  for (auto& each : values) {
    for (T& value : each) value = static_cast<T>(static_cast<int>(random() % 2001) - 1000);
  }
  return values;
}

template <class T>
std::vector<T> sum_of(const std::vector<std::vector<T>>& values) {
  std::vector<T> sum(values[0].size());
  for (const auto& each : values) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += each[i];
  }
  return sum;
}

inline std::vector<std::vector<float>> normal_numbers(std::uint32_t members, std::size_t elements,
                                                      std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> values(members, std::vector<float>(elements));
  for (auto& each : values) {
    for (float& value : each) value = normal(random);
  }
  return values;
}

// All members of one exchange, and the messages under way between them.
template <class T>
struct RingOfExchanges {
  struct Letter {
    std::uint32_t to = 0;
    wire::RingChunk chunk;
  };

  // `change` may make of a member's options what the test needs.
  RingOfExchanges(Operation operation, const std::vector<std::vector<T>>& values, std::size_t chunk_elements,
                  const std::function<void(std::uint32_t, ExchangeOptions&)>& change = {}) {
    const auto members = static_cast<std::uint32_t>(values.size());
    for (const auto& each : values) results.emplace_back(each.size(), T(12345));
    for (std::uint32_t self = 0; self < members; ++self) {
      ExchangeOptions options;
      options.ring = {.operation = operation, .members = members, .self = self, .chunk_elements = chunk_elements};
      options.round = 7;
      options.attempt = 2;
      options.vector = 5;
      if (change) change(self, options);
      exchanges.push_back(std::make_unique<Exchange<T>>(options, values[self], pool, results[self]));
    }
  }

  void post(std::uint32_t from, wire::RingChunk chunk) {
    elements_sent.resize(exchanges.size());
    elements_sent[from] += wire::element_count(chunk.tensor);
    letters.push_back({(from + 1) % static_cast<std::uint32_t>(exchanges.size()), std::move(chunk)});
  }

  void start(std::uint32_t member) {
    auto messages = exchanges[member]->start();
    ASSERT_TRUE(messages.ok()) << messages.status();
    for (wire::RingChunk& message : *messages) post(member, std::move(message));
  }

  void deliver(const Letter& letter) {
    auto message = exchanges[letter.to]->on_chunk(letter.chunk);
    ASSERT_TRUE(message.ok()) << message.status();
    if (*message) post(letter.to, std::move(**message));
  }

  // Members begin and messages arrive in an order drawn from the seed; each message `copies` times.
  void run(std::uint64_t seed = 1, int copies = 1) {
    std::mt19937_64 random(seed);
    std::vector<std::uint32_t> waiting(exchanges.size());
    for (std::uint32_t i = 0; i < waiting.size(); ++i) waiting[i] = i;
    while (!letters.empty() || !waiting.empty()) {
      const std::size_t drawn = random() % (letters.size() + waiting.size());
      if (drawn < waiting.size()) {
        start(waiting[drawn]);
        waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(drawn));
      } else {
        std::swap(letters[drawn - waiting.size()], letters.back());
        const Letter letter = std::move(letters.back());
        letters.pop_back();
        for (int i = 0; i < copies; ++i) deliver(letter);
      }
      if (testing::Test::HasFatalFailure()) return;
    }
  }

  // What the member holds at the end; elements that it does not hold are 12345.
  const std::vector<T>& held(std::uint32_t member) const { return results[member]; }

  transport::BufferPool pool{64 << 20};
  std::vector<std::vector<T>> results;  // by member
  std::vector<std::unique_ptr<Exchange<T>>> exchanges;
  std::vector<Letter> letters;
  std::vector<std::uint64_t> elements_sent;  // by member
};

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace ravnest::collective
