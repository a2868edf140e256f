// Connects in the background: names and connections make the caller wait, and the network's thread must not.
//
// An attempt runs in a thread of its own, which ends by itself even if the dialler is gone: the system does not let a
// question for a name be cut short. Results are taken by `take`, after `ready` has become readable.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ravnest/base/address.h"
#include "ravnest/base/descriptor.h"
#include "ravnest/base/status.h"
#include "ravnest/machine/socket.h"

namespace ravnest::transport::tcp {

struct Dialled {
  std::string peer;
  Result<Socket> socket;
};

class Dialler {
 public:
  Dialler();
  Dialler(const Dialler&) = delete;
  Dialler& operator=(const Dialler&) = delete;
  // Attempts that are under way come to nothing.
  ~Dialler();

  void dial(const std::string& peer, const Address& address);
  std::vector<Dialled> take();
  int ready() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace ravnest::transport::tcp
