#include "ravnest/strategy/launch/rank_ending.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "ravnest/base/check.h"

namespace ravnest::strategy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// For all ranks to say why they end. One that hangs does not keep the others.
constexpr Duration kSettleTime = seconds(2);
// For what was on its way to some rank only when all had been heard, and is passed on by it.
constexpr Duration kLastWordTime = milliseconds(200);
// What breaks here because another rank has failed is heard of from there within this; where a connection is broken, it
// is most likely why, and the transport finds that out within the longer time.
constexpr Duration kHearsayTime = seconds(2);
constexpr Duration kDetectionTime = seconds(8);

bool same(const wire::Failed& a, const wire::Failed& b) {
  return a.stage == b.stage && a.lost == b.lost && a.reason == b.reason;
}

}  // namespace

RankEnding::RankEnding(int rank, std::vector<std::string> shown)
    : rank_(rank), shown_(std::move(shown)), ending_(rank, static_cast<int>(shown_.size())) {}

void RankEnding::check_other(int rank) const {
  RAVNEST_CHECK(rank >= 0 && rank < world() && rank != rank_, "rank ", rank_, " of ", world(), " hears about rank ",
                rank);
}

RankEnding::ToTell RankEnding::fail(const std::string& sentence, TimePoint now) {
  return begin({.stage = static_cast<std::uint32_t>(rank_), .lost = false, .reason = sentence}, now);
}

RankEnding::ToTell RankEnding::broke(const Status& seen, TimePoint now) {
  RAVNEST_CHECK(!seen.ok(), "rank ", rank_, " says that something broke, and not what");
  if (has_begun() || seen_) return {};
  seen_ = seen;
  broke_at_ = now;
  return on_time(now);
}

RankEnding::ToTell RankEnding::on_failed(int from, const wire::Failed& told, TimePoint now) {
  check_other(from);
  if (told.stage >= shown_.size()) return {};
  const bool first = !has_begun();
  const std::optional<wire::Failed> before = first ? std::nullopt : std::optional(ending_.reason());
  ToTell tell = ending_.on_failed(from, told);
  if (first) settles_by_ = now + kSettleTime;
  if (before && !outcome_ && !same(*before, ending_.reason())) {
    tell = ending_.reason();
    if (settled_for_) settled_for_ = now + kLastWordTime;
  }
  look(now);
  return tell;
}

RankEnding::ToTell RankEnding::on_left(int from, TimePoint now) {
  check_other(from);
  ending_.on_gone(from);
  left_.insert(from);
  disconnected_.erase(from);
  return on_time(now);
}

RankEnding::ToTell RankEnding::on_lost(int from, TimePoint now) {
  check_other(from);
  ending_.on_gone(from);
  disconnected_.erase(from);
  ToTell tell = begin({.stage = static_cast<std::uint32_t>(from),
                       .lost = true,
                       .reason = text(shown_[static_cast<std::size_t>(from)], " was lost at step ", step_)},
                      now);
  look(now);
  return tell;
}

void RankEnding::on_connection(int from, bool is_broken) {
  check_other(from);
  if (is_broken) {
    disconnected_.insert(from);
  } else {
    disconnected_.erase(from);
  }
}

void RankEnding::on_unreachable(int to) {
  check_other(to);
  ending_.on_gone(to);
}

RankEnding::ToTell RankEnding::on_time(TimePoint now) {
  ToTell tell;
  if (seen_ && !has_begun() && now >= decides_at()) tell = decide(now);
  look(now);
  return tell;
}

TimePoint RankEnding::wakes_at() const {
  if (outcome_) return TimePoint::max();
  if (!has_begun()) return seen_ ? decides_at() : TimePoint::max();
  return settled_for_ ? std::min(*settled_for_, *settles_by_ + kLastWordTime) : *settles_by_;
}

// A rank that has left explains at once what broke; so does one that is lost, by `on_lost`.
TimePoint RankEnding::decides_at() const {
  if (!left_.empty()) return broke_at_;
  return broke_at_ + (disconnected_.empty() ? kHearsayTime : kDetectionTime);
}

RankEnding::ToTell RankEnding::decide(TimePoint now) {
  RAVNEST_CHECK(seen_ && !has_begun(), "rank ", rank_, " decides why the run ends, which ",
                has_begun() ? "is known" : "nothing shows");
  if (left_.empty()) return fail(text(shown_[static_cast<std::size_t>(rank_)], " failed: ", seen_->message()), now);
  const int about = *left_.begin();
  return begin({.stage = static_cast<std::uint32_t>(about),
                .lost = true,
                .reason = text(shown_[static_cast<std::size_t>(about)], " left at step ", step_,
                               ", while others still needed it")},
               now);
}

RankEnding::ToTell RankEnding::begin(wire::Failed reason, TimePoint now) {
  ToTell tell = ending_.fail(std::move(reason));
  if (!tell) return {};
  settles_by_ = now + kSettleTime;
  look(now);
  return tell;
}

// Whether the reason holds by now.
void RankEnding::look(TimePoint now) {
  if (!has_begun() || outcome_) return;
  RAVNEST_CHECK(settles_by_, "rank ", rank_, " ends, and has no time by which to");
  if (!settled_for_ && ending_.settled()) settled_for_ = now + kLastWordTime;
  if (now < wakes_at()) return;
  const wire::Failed& reason = ending_.reason();
  outcome_ = unavailable(reason.reason);
  if (reason.stage != static_cast<std::uint32_t>(rank_)) outcome_ = outcome_->of_another();
}

}  // namespace ravnest::strategy
