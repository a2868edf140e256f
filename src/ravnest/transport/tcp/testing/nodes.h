// Endpoints over real sockets for tests, with identities made for them.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "ravnest/identity/identity.h"
#include "ravnest/net/testing/free_port.h"
#include "ravnest/transport/tcp/endpoint.h"

namespace ravnest::transport::tcp {

// The identity of a node of the test's plan; `authority` makes others of the same plan.
inline identity::StoredIdentity identity_of(const identity::Authority& authority, const std::string& name) {
  auto identity = authority.issue(name);
  EXPECT_TRUE(identity.ok()) << identity.status();
  return {std::move(identity).value(), authority.certificate()};
}

inline identity::Authority new_authority(const std::string& plan = "test") {
  auto authority = identity::Authority::create(plan);
  EXPECT_TRUE(authority.ok()) << authority.status();
  return std::move(authority).value();
}

// Quiet, so that a test's output is its own.
inline Logger no_log() { return Logger("test", Level::kOff); }

}  // namespace ravnest::transport::tcp
