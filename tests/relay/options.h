// The command line of the program `relay`.
#pragma once

#include <string_view>

#include "ravnest/base/status.h"
#include "ravnest/net/address.h"
#include "relay/profile.h"

namespace ravnest::relay {

struct Options {
  Address listen{"127.0.0.1", 0};
  Address to;
  Profile profile;
  bool takes_commands = false;
};

// kInvalid or kNotFound where something is missing, unknown or not what it should be.
Result<Options> parse(int count, char** arguments);

inline constexpr std::string_view kHelp =
    "A TCP relay: clients connect to it, it connects to the server, and what goes through is slowed down and cut off.\n"
    "\n"
    "  relay --to HOST:PORT [options]\n"
    "\n"
    "  --to HOST:PORT      the server; it need not be there yet\n"
    "  --listen HOST:PORT  where clients connect; port 0 takes a free one (default 127.0.0.1:0)\n"
    "  --profile NAME      clean (default), 100mbps-80ms or 10mbps-150ms: rate of each direction and round trip\n"
    "  --mbps X            rate of each direction, shared by all connections, in 10^6 bits/s; 0: unlimited\n"
    "  --delay-ms X        round trip, half of it each way\n"
    "  --jitter-ms X       from 0 to this much more, each way; the order is kept\n"
    "  --cut-min N         each connection is reset after N to M bytes, both directions together (with --cut-max M)\n"
    "  --cut-max M         0: never\n"
    "  --seed S            of jitter and cuts (default 0)\n"
    "  --commands          take commands from standard input, one a line, and answer each with one: cut, silent on,\n"
    "                      silent off, refuse on, refuse off, statistics\n"
    "\n"
    "The first line says where it listens. SIGINT or SIGTERM ends it, with the number of connections and bytes.\n"
    "Options count in their order: what follows --profile changes it.\n"
    "\n"
    "Examples:\n"
    "  relay --to 127.0.0.1:8080 --profile 10mbps-150ms\n"
    "  relay --listen 127.0.0.1:9000 --to 127.0.0.1:8080 --mbps 50 --delay-ms 20 --jitter-ms 5\n"
    "  relay --to 127.0.0.1:8080 --cut-min 100000 --cut-max 5000000 --seed 3\n";

}  // namespace ravnest::relay
