// `relay`: a network of a known rate, delay and reliability between programs on one machine.
#include <sys/resource.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <iostream>
#include <string_view>
#include <system_error>

#include "ravnest/base/address.h"
#include "ravnest/base/status.h"
#include "relay/relay.h"

namespace ravnest::relay {
namespace {

constexpr std::string_view kHelp =
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
    "\n"
    "The first line says where it listens. SIGINT or SIGTERM ends it, with the number of connections and bytes.\n"
    "Options count in their order: what follows --profile changes it.\n"
    "\n"
    "Examples:\n"
    "  relay --to 127.0.0.1:8080 --profile 10mbps-150ms\n"
    "  relay --listen 127.0.0.1:9000 --to 127.0.0.1:8080 --mbps 50 --delay-ms 20 --jitter-ms 5\n"
    "  relay --to 127.0.0.1:8080 --cut-min 100000 --cut-max 5000000 --seed 3\n";

struct Options {
  Address listen{"127.0.0.1", 0};
  Address to;
  Profile profile;
};

template <class T>
Result<T> number(std::string_view written) {
  T value{};
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), value);
  if (error != std::errc() || end != written.data() + written.size()) {
    return invalid("\"", written, "\" is not a number that it can take");
  }
  return value;
}

Result<Duration> milliseconds(std::string_view written) {
  const auto count = number<double>(written);
  if (!count.ok()) return count.status();
  if (!(std::abs(*count) < 1e9)) return invalid("\"", written, "\" is too long a time");
  return Duration(static_cast<Duration::rep>(*count * 1e6));
}

// As `parse_address`, but with port 0 allowed.
Result<Address> listen_address(std::string_view written) {
  if (!written.ends_with(":0")) return parse_address(written);
  auto address = parse_address(text(written.substr(0, written.size() - 1), "1"));
  if (address.ok()) address->port = 0;
  return address;
}

template <class T, class F>
Status set(const Result<T>& value, const F& setter) {
  if (value.ok()) setter(*value);
  return value.status();
}

Status apply(std::string_view name, std::string_view value, Options& options) {
  Profile& profile = options.profile;
  const auto both = [&](auto member, auto each) { profile.up.*member = profile.down.*member = each; };
  if (name == "--to") return set(parse_address(value), [&](const Address& to) { options.to = to; });
  if (name == "--listen") return set(listen_address(value), [&](const Address& at) { options.listen = at; });
  if (name == "--profile") return set(profile_named(value), [&](const Profile& named) { profile = named; });
  if (name == "--mbps") return set(number<double>(value), [&](double mbps) { both(&Direction::mbps, mbps); });
  if (name == "--delay-ms") return set(milliseconds(value), [&](Duration time) { both(&Direction::delay, time / 2); });
  if (name == "--jitter-ms") return set(milliseconds(value), [&](Duration time) { both(&Direction::jitter, time); });
  const auto set_count = [&](std::uint64_t& member) {
    return set(number<std::uint64_t>(value), [&](std::uint64_t count) { member = count; });
  };
  if (name == "--cut-min") return set_count(profile.cut_min_bytes);
  if (name == "--cut-max") return set_count(profile.cut_max_bytes);
  if (name == "--seed") return set_count(profile.seed);
  return invalid("there is no such option");
}

Result<Options> parse(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; i += 2) {
    const std::string_view name = arguments[i];
    if (i + 1 == count) return invalid(name, ": a value is missing, or there is no such option; see relay --help");
    if (Status applied = apply(name, arguments[i + 1], options); !applied.ok()) return applied.with_context(name);
  }
  if (options.to.port == 0) return invalid("--to HOST:PORT is missing; see relay --help");
  return options;
}

// Two descriptors for every connection; the usual limit of 1024 would be reached soon.
void allow_many_descriptors() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

Status run(const Options& options) {
  // Before there is any thread, since threads inherit what is blocked.
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  allow_many_descriptors();
  auto relay = Relay::open(options.listen, options.to, options.profile);
  if (!relay.ok()) return relay.status();
  std::cout << "relay: listening on " << relay->address() << std::endl;
  int signal = 0;
  ::sigwait(&signals, &signal);
  const Statistics counted = relay->statistics();
  std::cout << "relay: " << counted.connections << " connections, " << counted.cuts << " cut, " << counted.bytes_up
            << " bytes up, " << counted.bytes_down << " bytes down" << std::endl;
  return {};
}

}  // namespace
}  // namespace ravnest::relay

int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    if (std::string_view(arguments[i]) == "--help" || std::string_view(arguments[i]) == "-h") {
      std::cout << ravnest::relay::kHelp;
      return 0;
    }
  }
  const auto options = ravnest::relay::parse(count, arguments);
  const ravnest::Status status = options.ok() ? ravnest::relay::run(*options) : options.status();
  if (status.ok()) return 0;
  std::cerr << "relay: " << status.message() << '\n';
  return 1;
}
