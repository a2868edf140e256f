// `ravnest ping`: how the path to a node is.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "commands.h"
#include "ranges.h"
#include "ravnest/base/printable.h"
#include "ravnest/doctor/caller.h"
#include "ravnest/doctor/path.h"
#include "stop_signals.h"

namespace ravnest::cli {
namespace {

constexpr Duration kReachTime = std::chrono::seconds(5);

struct PingOptions {
  std::string node;
  std::string as;
  std::filesystem::path node_data = "node_data";
  int count = 20;
  double seconds = 1;
  bool insecure = false;
};

void row(const char* name, const std::string& words) {
  std::printf("%-12s %s\n", name, words.c_str());
  std::fflush(stdout);
}

std::string rate(double bytes_per_s) {
  char written[64];
  std::snprintf(written, sizeof written, "%.4g MB/s (%.4g Mbps)", bytes_per_s / 1e6, bytes_per_s * 8 / 1e6);
  return written;
}

transport::tcp::Caller asker(const PingOptions& options, const plan::PlanHere& here, int asked) {
  const auto named = plan::asker_of(here, asked, options.as);
  // Without certificates anyone can act in any name.
  if (options.insecure && options.as.empty())
    return doctor::insecure_caller(here, named.ok() ? *named : asked, release());
  const int node = require(named);
  return options.insecure ? doctor::insecure_caller(here, node, release())
                          : require(doctor::caller(here, node, release()));
}

std::string identity(const transport::tcp::Contact& contact) {
  const wire::Hello& hello = contact.hello();
  const transport::tcp::ShownCertificate shown = contact.certificate();
  const std::string who = shown.name.empty() ? text(printable(hello.from), " of plan ", printable(hello.plan),
                                                    ", by its own word: there is no TLS")
                                             : text(printable(shown.name), " of ", printable(shown.issuer),
                                                    "; its certificate is valid until ", shown.valid_until);
  return text(who, "; speaks version ", hello.major, ".", hello.minor, ", release ", printable(hello.software));
}

void measure(const PingOptions& options, transport::tcp::Contact& contact, int stop) {
  const auto length = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.seconds));
  doctor::Path path;
  path.round_trips = require(doctor::measure_round_trips(contact, options.count, stop));
  const doctor::RoundTrips& trips = path.round_trips;
  row("round trip", text(doctor::time_in_words(trips.least_s), " at least, ", doctor::time_in_words(trips.median_s),
                         " median, ", doctor::time_in_words(trips.most_s), " at most (", trips.count, " probes)"));
  path.up_bytes_per_s = require(doctor::measure_rate(contact, doctor::Way::kUp, length, stop));
  row("up", rate(path.up_bytes_per_s));
  path.down_bytes_per_s = require(doctor::measure_rate(contact, doctor::Way::kDown, length, stop));
  row("down", rate(path.down_bytes_per_s));
  row("clock", doctor::clock_in_words(trips));
  for (const std::string& remark : doctor::remarks(path)) row("note", remark);
}

void run_ping(const PingOptions& options) {
  const StopSignals signals;
  const plan::PlanHere here = require(plan::read_plan_here(options.node_data));
  const int asked = require(plan::node_named(here.plan, options.node));
  const transport::tcp::Peer peer = doctor::peer(here.plan, asked);
  const transport::tcp::Caller caller = asker(options, here, asked);
  const transport::tcp::Reached reached =
      transport::tcp::reach(caller, peer, Wait::of(kReachTime, signals.descriptor()));
  require(reached.status);
  row("address", text(peer.name, " is at ", peer.address, ", dialled as ", reached.contact->dialled(), "; asked by ",
                      caller.name));
  row("identity", identity(*reached.contact));
  measure(options, *reached.contact, signals.descriptor());
}

}  // namespace

void add_ping(CLI::App& app) {
  CLI::App* command = app.add_subcommand("ping", "Measure the path from this machine to a node");
  const auto options = std::make_shared<PingOptions>();
  command->add_option("node", options->node, "The node, such as node_3 or 3")->required();
  command->add_option("--as", options->as, "In whose name to ask; by default another node whose identity is here");
  command->add_option("--node-data", options->node_data, "The folder with the plan")->capture_default_str();
  command->add_option("--count", options->count, "Probes for the round trip")
      ->capture_default_str()
      ->check(whole(1, 10000));
  command->add_option("--seconds", options->seconds, "Time for each direction's rate")
      ->capture_default_str()
      ->check(between(0.1, 60.0));
  command->add_flag("--insecure", options->insecure, "Ask a node that was started without TLS");
  command->footer(
      "The node must be running, or `ravnest doctor --wait 60` must be examining it on its machine. A ping takes\n"
      "nothing from a training that runs but bytes, and such a training makes the rates look lower than they are.\n"
      "\n"
      "Examples:\n"
      "  ravnest ping node_3\n"
      "  ravnest ping 3 --as node_0 --seconds 5\n"
      "  ravnest ping node_3 --count 100 --node-data /mnt/lab/node_data");
  command->callback([options] { run_ping(*options); });
}

}  // namespace ravnest::cli
