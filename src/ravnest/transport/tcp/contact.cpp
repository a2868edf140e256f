#include "ravnest/transport/tcp/contact.h"

#include <cerrno>
#include <utility>

#include "ravnest/base/printable.h"
#include "ravnest/transport/greeting.h"

namespace ravnest::transport::tcp {
namespace {

Reached failed(Trouble trouble, Status status) { return {trouble, std::move(status), nullptr}; }

Reached not_connected(const Peer& peer, const Status& status, int system_error) {
  if (status.code() == Code::kCancelled) return failed(Trouble::kStopped, status);
  if (status.code() == Code::kDeadline || system_error == ETIMEDOUT) {
    return failed(Trouble::kSilence, unavailable("nothing at all comes back from ", peer.address,
                                                 ": a firewall in between drops what is sent, or the machine of ",
                                                 peer.name, " is off or has another address"));
  }
  switch (system_error) {
    case 0:
      return failed(Trouble::kNameUnknown, invalid(status.message(), ": correct the address of ", peer.name,
                                                   " in the pool file, or this machine's name service"));
    case ECONNREFUSED:
      return failed(Trouble::kNothingListens, unavailable("nothing listens at ", peer.address, ": start ", peer.name,
                                                          " there, or run `ravnest doctor --wait 60` there meanwhile"));
    case EHOSTUNREACH:
    case ENETUNREACH:
      return failed(Trouble::kNoRoute, unavailable("there is no route from here to ", peer.address,
                                                   ": check the address, and that both are in one network"));
    default: return failed(Trouble::kNoRoute, unavailable(status.message(), ": check this machine's network"));
  }
}

// The connection was there, and then it was not what it should be.
Reached not_greeted(const Peer& peer, const Status& status, TlsTrouble tls) {
  if (tls == TlsTrouble::kCertificate || tls == TlsTrouble::kOtherPlan)
    return failed(Trouble::kCertificate, invalid(peer.name, " at ", peer.address, ": ", status.message()));
  if (tls == TlsTrouble::kNotTls) return failed(Trouble::kNotANode, invalid(peer.address, ": ", status.message()));
  switch (status.code()) {
    case Code::kCancelled: return failed(Trouble::kStopped, status);
    case Code::kDeadline:
      return failed(Trouble::kSilence, unavailable(peer.address,
                                                   " takes the connection and then says nothing: another "
                                                   "program, a firewall in between, or a machine that is overloaded"));
    case Code::kCorrupt:
      return failed(Trouble::kNotANode,
                    invalid("what is at ", peer.address, " is not a ravnest node: ", status.message()));
    case Code::kUnsupported:
      return failed(Trouble::kVersion, invalid(peer.name, " at ", peer.address, ": ", status.message()));
    default:
      return failed(Trouble::kBroken,
                    unavailable(peer.address, " takes the connection and ends it (", status.message(),
                                "): another program is there, or ", peer.name,
                                " is just ending, or what forwards that port finds nothing behind it"));
  }
}

}  // namespace

Status Contact::flush(const Wait& wait) {
  for (;;) {
    const auto flushed = writer_.flush(stream_);
    if (!flushed.ok()) return flushed.status();
    if (*flushed) return {};
    if (Status ready = stream_.wait(wait); !ready.ok()) return ready;
  }
}

Status Contact::next_frame(wire::FrameKind kind, const Wait& wait) {
  for (;;) {
    const auto step = reader_.next(stream_);
    if (!step.ok()) return step.status();
    if (*step == FrameReader::Step::kNothing) {
      if (Status ready = stream_.wait(wait); !ready.ok()) return ready;
      continue;
    }
    if (*step != FrameReader::Step::kFrame) return corrupt("a message came where none was asked for");
    if (reader_.header().kind == kind) return {};
    if (reader_.header().kind != wire::FrameKind::kGoodbye) return corrupt("an answer is of the wrong kind");
    auto goodbye = wire::decode_goodbye(reader_.body());
    if (!goodbye.ok()) return goodbye.status();
    goodbye_ = std::move(goodbye).value();
    return unavailable(printable(goodbye_->reason));
  }
}

Status Contact::post(wire::Probe probe, const Slice& data, const Wait& wait) {
  writer_.add(wire::FrameKind::kProbe, 0, wire::encode(probe), {data});
  return flush(wait);
}

Result<wire::ProbeAnswer> Contact::next_answer(const Wait& wait) {
  if (Status came = next_frame(wire::FrameKind::kProbeAnswer, wait); !came.ok()) return came;
  return wire::decode_probe_answer(reader_.body());
}

Result<wire::ProbeAnswer> Contact::ask(wire::Probe probe, const Slice& data, const Wait& wait) {
  if (Status posted = post(probe, data, wait); !posted.ok()) return posted;
  return next_answer(wait);
}

// The steps to an open contact.
struct Reaching {
  const Caller& caller;
  const Peer& peer;
  const Wait& wait;

  Status shake_hands(Stream& stream) const {
    for (;;) {
      const auto done = stream.handshake();
      if (!done.ok()) return done.status();
      if (*done) return {};
      if (Status ready = stream.wait(wait); !ready.ok()) return ready;
    }
  }

  Status greet(Contact& contact) const {
    wire::Hello hello;
    hello.software = caller.software;
    hello.plan = caller.plan;
    hello.from = caller.name;
    hello.to = peer.name;
    hello.purpose = wire::Purpose::kProbe;
    contact.writer_.add(wire::FrameKind::kHello, 0, wire::encode(hello));
    if (Status sent = contact.flush(wait); !sent.ok()) return sent;
    if (Status came = contact.next_frame(wire::FrameKind::kHello, wait); !came.ok()) return came;
    auto answer = wire::decode_hello(contact.reader_.body());
    if (!answer.ok()) return answer.status();
    contact.hello_ = std::move(answer).value();
    return {};
  }

  Reached reach() const {
    int system_error = 0;
    auto socket = Socket::connect(dialled(peer.address), wait, &system_error);
    if (!socket.ok()) return not_connected(peer, socket.status(), system_error);
    auto stream = Stream::over(std::move(socket).value(), caller.tls ? &*caller.tls : nullptr, Side::kDialled);
    if (!stream.ok()) return failed(Trouble::kBroken, stream.status());
    if (Status shaken = shake_hands(*stream); !shaken.ok()) return not_greeted(peer, shaken, stream->trouble());
    const std::string certified = stream->certified_name();
    if (caller.tls && certified != peer.name) {
      return failed(Trouble::kWrongNode, invalid(printable(certified), " answers at ", peer.address, ", where ",
                                                 peer.name, " should be: check the addresses in the plan"));
    }
    std::unique_ptr<Contact> contact(new Contact(std::move(stream).value()));
    // A node that refuses this one's certificate says so only now.
    if (Status greeted = greet(*contact); !greeted.ok()) {
      if (contact->goodbye_) return refused(*contact->goodbye_);
      return not_greeted(peer, greeted, contact->stream_.trouble());
    }
    if (Status fits = check_greeting({caller.name, caller.plan, peer.name, certified}, contact->hello()); !fits.ok()) {
      return failed(contact->hello().plan != caller.plan ? Trouble::kCertificate : Trouble::kWrongNode, fits);
    }
    return {Trouble::kNone, {}, std::move(contact)};
  }

  Reached refused(const wire::Goodbye& goodbye) const {
    const bool version = goodbye.code == wire::GoodbyeCode::kVersion;
    return failed(version ? Trouble::kVersion : Trouble::kRefused,
                  invalid(peer.name, " at ", peer.address, " refuses: ", printable(goodbye.reason)));
  }
};

Reached reach(const Caller& caller, const Peer& peer, const Wait& wait) { return Reaching{caller, peer, wait}.reach(); }

}  // namespace ravnest::transport::tcp
