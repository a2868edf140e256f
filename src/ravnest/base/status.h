// Failure as a value: what the outside world (files, peers, users' input) does to us is returned, not thrown.
//
// A message is a sentence for the person who has to act on it: what was tried, on what, and why it failed. Callers
// put their own context in front with `with_context`. Misuse of an object inside the program (the value of a failed
// Result) ends the process, since no caller could handle it.
// All types here are plain values: copyable, movable, and safe to use from one thread at a time.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "ravnest/base/text.h"

namespace ravnest {

// The meanings are fixed; callers decide by them. The numbers are stable and may be sent or stored.
enum class Code : unsigned char {
  kOk = 0,
  kInvalid = 1,      // the caller's input is wrong; the same call fails again until the input is changed
  kNotFound = 2,     // what was named does not exist
  kCorrupt = 3,      // stored or received data contradicts itself or its format; get it again from its source
  kUnsupported = 4,  // well-formed, but something that this version does not do
  kUnavailable = 5,  // the outside world failed for now (I/O, network, disk full); trying again later may work
  kCancelled = 6,    // someone on our side asked for the operation to end
  kDeadline = 7,     // the time given ran out first; the operation's outcome is unknown unless its contract says
  kInternal = 8,     // a defect of the program: please report
};

// A code as a word for messages and logs, such as "not found".
constexpr std::string_view name(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kInvalid: return "invalid";
    case Code::kNotFound: return "not found";
    case Code::kCorrupt: return "corrupt";
    case Code::kUnsupported: return "unsupported";
    case Code::kUnavailable: return "unavailable";
    case Code::kCancelled: return "cancelled";
    case Code::kDeadline: return "deadline exceeded";
    case Code::kInternal: return "internal";
  }
  return "unknown";
}

inline std::ostream& operator<<(std::ostream& out, Code code) { return out << name(code); }

// Whether an operation succeeded, and if not, why.
class [[nodiscard]] Status {
 public:
  Status() = default;
  // A message given with kOk is dropped: success has nothing to say.
  Status(Code code, std::string message) : code_(code) {
    if (code != Code::kOk) message_ = std::move(message);
  }

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  // What failed is another process of the same run, which the message names: this one only heard of it.
  bool is_of_another() const { return of_another_; }
  Status of_another() const {
    Status status = *this;
    status.of_another_ = !ok();
    return status;
  }

  // The same failure as seen one level up: "context: message". An ok status stays as it is.
  Status with_context(std::string_view context) const {
    if (ok()) return *this;
    Status status(code_, text(context, ": ", message_));
    status.of_another_ = of_another_;
    return status;
  }

  // The same code and words, whoever it is that failed.
  friend bool operator==(const Status& a, const Status& b) { return a.code_ == b.code_ && a.message_ == b.message_; }
  friend std::ostream& operator<<(std::ostream& out, const Status& status) {
    out << name(status.code_);
    return status.ok() ? out : out << ": " << status.message_;
  }

 private:
  Code code_ = Code::kOk;
  bool of_another_ = false;
  std::string message_;
};

template <class... Ts>
Status invalid(const Ts&... parts) {
  return {Code::kInvalid, text(parts...)};
}
template <class... Ts>
Status not_found(const Ts&... parts) {
  return {Code::kNotFound, text(parts...)};
}
template <class... Ts>
Status corrupt(const Ts&... parts) {
  return {Code::kCorrupt, text(parts...)};
}
template <class... Ts>
Status unsupported(const Ts&... parts) {
  return {Code::kUnsupported, text(parts...)};
}
template <class... Ts>
Status unavailable(const Ts&... parts) {
  return {Code::kUnavailable, text(parts...)};
}
template <class... Ts>
Status cancelled(const Ts&... parts) {
  return {Code::kCancelled, text(parts...)};
}
template <class... Ts>
Status deadline(const Ts&... parts) {
  return {Code::kDeadline, text(parts...)};
}
template <class... Ts>
Status internal(const Ts&... parts) {
  return {Code::kInternal, text(parts...)};
}

// Two failures as one, which is of the first's kind: a line for each.
inline Status line_by_line(const Status& first, const Status& second) {
  if (first.ok() || second.ok()) return first.ok() ? second : first;
  return {first.code(), text(first.message(), '\n', second.message())};
}

// A T, or the reason why there is none. Asking a failed Result for its value ends the process with that reason.
template <class T>
class [[nodiscard]] Result {
  static_assert(!std::is_reference_v<T> && !std::is_same_v<std::remove_cv_t<T>, Status>);

 public:
  using value_type = T;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  // An ok status would leave nothing to return, so it becomes kInternal.
  Result(Status status)  // NOLINT(google-explicit-constructor)
      : state_(std::in_place_index<1>,
               status.ok() ? internal("a Result was made from an ok status without a value") : std::move(status)) {}

  bool ok() const { return state_.index() == 0; }
  Status status() const { return ok() ? Status() : std::get<1>(state_); }

  T& value() & { return checked(*this); }
  const T& value() const& { return checked(*this); }
  T&& value() && { return std::move(checked(*this)); }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  template <class Self>
  static auto& checked(Self& self) {
    if (auto* value = std::get_if<0>(&self.state_)) return *value;
    std::fprintf(stderr, "ravnest: the value of a failed Result was used: %s\n",
                 text(std::get<1>(self.state_)).c_str());
    std::abort();
  }

  std::variant<T, Status> state_;
};

}  // namespace ravnest
