// Two ends of a connection inside the benchmark, over one way of talking or another.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace ravnest::benchmark {

// One side sends, the other one receives or answers; each side is used by one thread.
class Pair {
 public:
  virtual ~Pair() = default;

  // Sends `count` messages of `size` bytes from the near side to the far side, and returns when all have been received
  // into memory.
  virtual void stream(std::size_t size, int count) = 0;
  // One message there and one of the same size back.
  virtual void round_trip(std::size_t size) = 0;
};

std::unique_ptr<Pair> raw_tcp();
std::unique_ptr<Pair> raw_tls();  // by OpenSSL over blocking sockets, mutual
std::unique_ptr<Pair> ravnest_plain();
std::unique_ptr<Pair> ravnest_tls();
std::unique_ptr<Pair> ravnest_inproc();
// A bidirectional stream of whole messages with gRPC's own settings; nothing where it was not there at build time.
std::unique_ptr<Pair> grpc_stream();
std::unique_ptr<Pair> grpc_tls();  // mutual, with the same identities

}  // namespace ravnest::benchmark
