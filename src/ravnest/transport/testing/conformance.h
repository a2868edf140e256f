// What every transport must do: one suite, run over each of them.
//
// A transport takes part by a Harness that opens endpoints and disturbs what is between them. To add a transport, write
// its harness and list it in harnesses.cpp.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/transport/endpoint.h"
#include "ravnest/transport/session.h"

namespace ravnest::transport {

class Harness {
 public:
  virtual ~Harness() = default;

  // Every name that a test uses is one of "a", "b", "c".
  virtual std::unique_ptr<Endpoint> open(const std::string& name, std::vector<std::string> peers,
                                         SessionOptions options) = 0;
  // Another process that says it is `name`, while there is one.
  virtual std::unique_ptr<Endpoint> open_second(const std::string& name, std::vector<std::string> peers,
                                                SessionOptions options) = 0;
  // Breaks the connection between the two.
  virtual void cut(const std::string& a, const std::string& b) = 0;
  // While parted, nothing is carried between the two and neither is told.
  virtual void set_parted(const std::string& a, const std::string& b, bool parted) = 0;
};

struct HarnessKind {
  std::string name;
  std::function<std::unique_ptr<Harness>()> make;

  friend std::ostream& operator<<(std::ostream& out, const HarnessKind& kind) { return out << kind.name; }
};

class Conformance : public ::testing::TestWithParam<HarnessKind> {
 protected:
  std::unique_ptr<Harness> harness_ = GetParam().make();
  SessionOptions options_;

  std::unique_ptr<Endpoint> open(const std::string& name, std::vector<std::string> peers) {
    return harness_->open(name, std::move(peers), options_);
  }
};

}  // namespace ravnest::transport
