#include "pair.h"

namespace ravnest::benchmark {

std::unique_ptr<Pair> grpc_stream() { return nullptr; }
std::unique_ptr<Pair> grpc_tls() { return nullptr; }

}  // namespace ravnest::benchmark
