// A connection that only asks questions: how the path to a node is, and what is wrong with it.
//
// Neither side's session is touched: a node that trains can be asked, also in the name of another node that trains.
// Calls wait, at most as long as they are told. Not thread-safe; one owner.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/base/status.h"
#include "ravnest/net/socket.h"
#include "ravnest/transport/tcp/endpoint.h"
#include "ravnest/transport/tcp/frame_reader.h"
#include "ravnest/transport/tcp/frame_writer.h"
#include "ravnest/transport/tcp/stream.h"
#include "ravnest/transport/tcp/tls.h"
#include "ravnest/wire/frame.h"

namespace ravnest::transport::tcp {

// Why a node could not be reached, in the order in which one finds out.
enum class Trouble : unsigned char {
  kNone,
  kNameUnknown,     // its host's name has no address
  kNoRoute,         // the network has no way there
  kNothingListens,  // the machine is there and refuses: the node is not running
  kSilence,         // nothing comes back: a firewall, or no machine
  kNotANode,        // something else is at that port
  kCertificate,     // a certificate is of another plan, or out of its time; on either side
  kWrongNode,       // another node of the plan is there
  kVersion,         // it speaks another version of the protocol
  kRefused,         // it does not want to talk to this node, and says why
  kBroken,          // the connection ended in the middle
  kStopped,         // asked to stop
};

// Who asks.
struct Caller {
  std::string name;
  std::string plan;
  std::string software;
  std::optional<TlsContext> tls;  // none: insecure
};

class Contact {
 public:
  // What the node said of itself.
  const wire::Hello& hello() const { return hello_; }
  // The name in its certificate; empty where insecure.
  std::string certified_name() const { return stream_.certified_name(); }
  ShownCertificate certificate() const { return stream_.certificate(); }
  // The number that its host's name stands for, with the port.
  std::string dialled() const { return stream_.socket().peer(); }

  // Asks and waits for the answer.
  Result<wire::ProbeAnswer> ask(wire::Probe probe, const Slice& data, const Wait& wait);

  // Asks without waiting for the answer, for as long as there is room on the way.
  Status post(wire::Probe probe, const Slice& data, const Wait& wait);
  Result<wire::ProbeAnswer> next_answer(const Wait& wait);

 private:
  friend struct Reaching;
  explicit Contact(Stream stream) : stream_(std::move(stream)) {}

  Status flush(const Wait& wait);
  // The next frame of that kind. A goodbye is kept, and a failure.
  Status next_frame(wire::FrameKind kind, const Wait& wait);

  Stream stream_;
  FrameReader reader_;
  FrameWriter writer_;
  wire::Hello hello_;
  std::optional<wire::Goodbye> goodbye_;  // its last words
};

// The open contact, or what is wrong: `status` is a sentence that says what to do.
struct Reached {
  Trouble trouble = Trouble::kNone;
  Status status;
  std::unique_ptr<Contact> contact;
};

Reached reach(const Caller& caller, const Peer& peer, const Wait& wait);

}  // namespace ravnest::transport::tcp
