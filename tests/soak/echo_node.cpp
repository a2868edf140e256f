// echo_node NAME PORT PEER PEER_PORT [FILES]: an insecure endpoint on loopback that sends every message of its peer
// back. Ends when its standard input does. FILES is the most files that it may have open.
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "ravnest/transport/tcp/endpoint.h"

using namespace ravnest;
using namespace ravnest::transport;

int main(int count, char** arguments) {
  if (count < 5) {
    std::fprintf(stderr, "usage: echo_node NAME PORT PEER PEER_PORT [FILES]\n");
    return 2;
  }
  if (count > 5) {
    const rlimit limit{std::stoul(arguments[5]), std::stoul(arguments[5])};
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  tcp::Options options;
  options.name = arguments[1];
  options.plan = "test";
  options.software = "0";
  options.listen = {"127.0.0.1", static_cast<std::uint16_t>(std::stoul(arguments[2]))};
  options.peers = {{arguments[3], {"127.0.0.1", static_cast<std::uint16_t>(std::stoul(arguments[4]))}}};
  options.insecure = tcp::Insecure::kOnLoopback;
  options.log = Logger(options.name, Level::kOff);
  auto endpoint = tcp::open(std::move(options));
  if (!endpoint.ok()) {
    std::fprintf(stderr, "echo_node: %s\n", endpoint.status().message().c_str());
    return 1;
  }
  std::thread([] {
    char byte = 0;
    while (::read(0, &byte, 1) > 0) {
    }
    ::_exit(0);
  }).detach();
  for (;;) {
    auto event = (*endpoint)->receive(SystemClock().now() + std::chrono::hours(1));
    if (!event.ok()) continue;
    if (auto* message = std::get_if<wire::Message>(&event->what)) {
      (void)(*endpoint)->send(event->peer, std::move(*message), Priority::kNormal, {},
                              SystemClock().now() + std::chrono::minutes(1));
    }
  }
}
