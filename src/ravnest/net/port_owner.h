// Which program listens at a port of this machine.
#pragma once

#include <cstdint>
#include <string>

namespace ravnest {

// "nginx (process 812)"; empty where the system does not tell, as with programs of other users.
std::string port_owner(std::uint16_t port);

}  // namespace ravnest
