// For tests: someone at an endpoint's port who says whatever the test likes.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/net/socket.h"
#include "ravnest/transport/tcp/frame_reader.h"
#include "ravnest/transport/tcp/frame_writer.h"
#include "ravnest/transport/tcp/stream.h"
#include "ravnest/wire/frame.h"

namespace ravnest::transport::tcp {

// Every wait of it ends after a minute.
class Stranger {
 public:
  static Wait patience() { return Wait::of(std::chrono::seconds(60)); }

  // Connected, and through TLS's handshake where there is a context.
  static Result<Stranger> connect(std::uint16_t port, const TlsContext* tls) {
    auto socket = Socket::connect({"127.0.0.1", port}, patience());
    if (!socket.ok()) return socket.status();
    auto stream = Stream::over(std::move(socket).value(), tls, Side::kDialled);
    if (!stream.ok()) return stream.status();
    Stranger stranger(std::move(stream).value());
    for (;;) {
      const auto done = stranger.stream_.handshake();
      if (!done.ok()) return done.status();
      if (*done) return stranger;
      if (Status ready = stranger.stream_.wait(patience()); !ready.ok()) return ready;
    }
  }

  // Bytes as they are. A failure means that the other side is gone.
  Status say(ByteSpan bytes) {
    while (!bytes.empty()) {
      const ByteSpan piece = bytes;
      const auto written = stream_.write(std::span(&piece, 1));
      if (!written.ok()) return written.status();
      if (*written == 0) {
        if (Status ready = stream_.wait(patience()); !ready.ok()) return ready;
      }
      bytes = bytes.subspan(*written);
    }
    return flush();
  }
  Status say(wire::FrameKind kind, std::uint8_t lane, std::vector<std::byte> body) {
    writer_.add(kind, lane, std::move(body));
    for (;;) {
      const auto flushed = writer_.flush(stream_);
      if (!flushed.ok()) return flushed.status();
      if (*flushed) return {};
      if (Status ready = stream_.wait(patience()); !ready.ok()) return ready;
    }
  }
  Status say(const wire::Hello& hello) { return say(wire::FrameKind::kHello, 0, wire::encode(hello)); }
  Status say_chunk(std::uint8_t lane, const wire::Chunk& chunk, ByteSpan data) {
    std::vector<std::byte> body = wire::encode(chunk);
    body.insert(body.end(), data.begin(), data.end());
    return say(wire::FrameKind::kChunk, lane, std::move(body));
  }

  // The next frame of that kind, past others; nothing where the other side closes before.
  std::optional<std::vector<std::byte>> next(wire::FrameKind kind) {
    for (;;) {
      const auto step = reader_.next(stream_);
      if (!step.ok()) return std::nullopt;
      if (*step == FrameReader::Step::kNothing) {
        if (!stream_.wait(patience()).ok()) return std::nullopt;
      } else if (*step == FrameReader::Step::kChunk) {
        data_.resize(reader_.chunk_size());
        reader_.receive_into(data_);
      } else if (*step == FrameReader::Step::kFrame && reader_.header().kind == kind) {
        return std::vector<std::byte>(reader_.body().begin(), reader_.body().end());
      }
    }
  }
  // Whether the other side closes, whatever it says before, and sooner than it gives up those who say nothing.
  bool is_thrown_out() {
    const Wait wait = Wait::of(std::chrono::seconds(8));
    for (;;) {
      const auto read = stream_.read(std::span(sink_));
      if (!read.ok()) return true;
      if (*read == 0 && !stream_.wait(wait).ok()) return false;
    }
  }
  // Whether the other side has closed by now.
  bool was_thrown_out() {
    const auto read = stream_.read(std::span(sink_));
    return !read.ok();
  }

 private:
  Status flush() {
    for (;;) {
      const auto flushed = stream_.flush();
      if (!flushed.ok()) return flushed.status();
      if (*flushed) return {};
      if (Status ready = stream_.wait(patience()); !ready.ok()) return ready;
    }
  }

  explicit Stranger(Stream stream) : stream_(std::move(stream)), sink_(64 << 10) {}

  Stream stream_;
  FrameReader reader_;
  FrameWriter writer_;
  std::vector<std::byte> data_;
  std::vector<std::byte> sink_;
};

}  // namespace ravnest::transport::tcp
