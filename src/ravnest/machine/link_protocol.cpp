#include "ravnest/machine/link_protocol.h"

#include <string_view>

namespace ravnest {
namespace {

constexpr std::string_view kMagic = "RVNLINK\n";

ByteWriter start() {
  ByteWriter out;
  out.string(kMagic);
  out.u16(kLinkVersion);
  return out;
}

// Reads magic and version, whatever comes behind them in other versions.
Status check_start(ByteReader& in) {
  const auto magic = in.bytes(kMagic.size());
  if (!magic.ok() || as_string_view(*magic) != kMagic) return corrupt("it does not speak ravnest's link measurement");
  const auto version = in.u16();
  if (!version.ok()) return version.status();
  if (*version != kLinkVersion) {
    return unsupported("it speaks version ", *version, " of the link measurement, this side version ", kLinkVersion);
  }
  return {};
}

}  // namespace

double StreamRate::mbps() const {
  return time.count() > 0 ? static_cast<double>(bytes) * 8e3 / static_cast<double>(time.count()) : 0.0;
}

std::vector<std::byte> encode(const LinkHello& hello) {
  ByteWriter out = start();
  out.u16(0);
  out.u32(hello.echoes);
  out.u32(hello.stream_ms);
  return out.take();
}

std::vector<std::byte> encode(LinkAnswer answer) {
  ByteWriter out = start();
  out.u16(static_cast<std::uint16_t>(answer));
  return out.take();
}

std::vector<std::byte> encode(const StreamRate& rate) {
  ByteWriter out;
  out.u64(rate.bytes);
  out.u64(static_cast<std::uint64_t>(rate.time.count()));
  return out.take();
}

Result<LinkHello> decode_hello(ByteSpan bytes) {
  ByteReader in(bytes);
  if (Status status = check_start(in); !status.ok()) return status;
  const auto zero = in.u16();
  const auto echoes = in.u32();
  const auto stream_ms = in.u32();
  if (!stream_ms.ok() || in.remaining() != 0 || *zero != 0) return corrupt("its hello is malformed");
  if (*echoes == 0 || *echoes > kMaxEchoes || *stream_ms == 0 || *stream_ms > kMaxStreamMs) {
    return invalid("it asks for ", *echoes, " echoes and streams of ", *stream_ms, " ms, where 1 to ", kMaxEchoes,
                   " and 1 to ", kMaxStreamMs, " are served");
  }
  return LinkHello{*echoes, *stream_ms};
}

Result<LinkAnswer> decode_answer(ByteSpan bytes) {
  ByteReader in(bytes);
  if (Status status = check_start(in); !status.ok()) return status;
  const auto answer = in.u16();
  if (!answer.ok() || in.remaining() != 0 || *answer > static_cast<std::uint16_t>(LinkAnswer::kRefused)) {
    return corrupt("its answer is malformed");
  }
  return static_cast<LinkAnswer>(*answer);
}

Result<StreamRate> decode_rate(ByteSpan bytes) {
  ByteReader in(bytes);
  const auto count = in.u64();
  const auto nanoseconds = in.u64();
  if (!nanoseconds.ok() || in.remaining() != 0) return corrupt("its report has the wrong length");
  constexpr std::uint64_t kAnHour = 3'600'000'000'000;
  if (*count == 0 || *nanoseconds == 0 || *nanoseconds > kAnHour) {
    return corrupt("it reports ", *count, " bytes in ", *nanoseconds, " ns, which cannot be");
  }
  return StreamRate{*count, Duration(static_cast<Duration::rep>(*nanoseconds))};
}

}  // namespace ravnest
