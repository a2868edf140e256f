// One connection of an endpoint, from the first byte to the last.
//
// The network's thread owns it. While it is open, a thread that sends a short message may write to it too, if it gets
// `in_use` at once; both hold it while they write, and while they change anything. Clang watches over what both change;
// the rest only the network's thread changes, which may look at it without.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "ravnest/base/clock.h"
#include "ravnest/base/mutex.h"
#include "ravnest/transport/tcp/frame_reader.h"
#include "ravnest/transport/tcp/frame_writer.h"
#include "ravnest/transport/tcp/stream.h"

namespace ravnest::transport::tcp {

enum class Phase : unsigned char {
  kHandshake,  // TLS is being set up
  kGreeting,   // waiting for the other side's hello
  kOpen,       // frames go both ways
  kProbe,      // answers questions, without a session
  kClosing,    // the last words are being sent
};

struct Connection {
  Connection(std::uint64_t number, Stream opened, Side made_by, TimePoint until)
      : id(number), stream(std::move(opened)), side(made_by), deadline(until) {}

  Mutex in_use;
  const std::uint64_t id;
  Stream stream;
  const Side side;
  TimePoint deadline;  // of every phase but kOpen
  Phase phase = Phase::kHandshake;
  std::string peer;           // known from the start on the dialling side, otherwise from the hello on
  std::string asker;          // of a probe
  std::uint64_t session = 0;  // of this end, as its hello said
  FrameReader reader;
  FrameWriter writer RAVNEST_GUARDED_BY(in_use);
  std::atomic<bool> full = false;  // waits for room to write; may be read without `in_use`
  bool finished_writing = false;
  bool refused = false;  // the other side does not let this node in
  // Bytes that the statistics know.
  std::uint64_t counted_in RAVNEST_GUARDED_BY(in_use) = 0;
  std::uint64_t counted_out RAVNEST_GUARDED_BY(in_use) = 0;
};

}  // namespace ravnest::transport::tcp
