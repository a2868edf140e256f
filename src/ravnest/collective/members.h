// The members of a group on their ring, and which of them are gone.
//
// Told of every change of a peer; says which of them end an operation. Whoever has left may have done its part of what
// is still to be done here, unless it is the member before; whoever is lost has lost what was on its way through it.
// Not thread-safe; one owner.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/transport/endpoint.h"

namespace ravnest::collective {

class Members {
 public:
  // This one is names[self], and the endpoint its own, which outlives this.
  Members(const transport::Endpoint& endpoint, std::vector<std::string> names, std::size_t self);

  std::size_t count() const { return names_.size(); }
  const std::string& previous() const { return names_[(self_ + names_.size() - 1) % names_.size()]; }
  const std::string& next() const { return names_[(self_ + 1) % names_.size()]; }

  // kUnavailable with the peer's name where the change ends an operation.
  Status note(const std::string& peer, const transport::PeerChange& change);
  // The same before the first operation: one that has come back is not gone.
  void catch_up(const std::string& peer, const transport::PeerChange& change);

  // Why it is no use to begin an operation, with the name of whoever is gone.
  Status ready() const;
  // Why the next member gets no more messages.
  Status next_is_gone() const;
  // How the member before is, and who else is gone, for people.
  std::string outlook() const;

 private:
  bool ends_all(const std::string& peer, const transport::PeerChange& change) const;
  bool is_member(const std::string& peer) const;

  const transport::Endpoint& endpoint_;
  const std::vector<std::string> names_;
  const std::size_t self_;
  std::map<std::string, transport::PeerChange> gone_;  // lost, or left
};

}  // namespace ravnest::collective
