// `ravnest up`: all nodes of the plan that belong on this machine, with one view of them.
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "child_process.h"
#include "commands.h"
#include "last_words.h"
#include "ravnest/base/clock.h"
#include "ravnest/plan/files/local_plan.h"
#include "stop_signals.h"

namespace ravnest::cli {
namespace {

constexpr Duration kLookupTime = std::chrono::seconds(10);
// Nodes end by themselves when another one fails, unless that one never got as far as to meet them.
constexpr Duration kAfterFailure = std::chrono::seconds(10);
constexpr Duration kAfterInterrupt = std::chrono::seconds(5);

struct UpOptions {
  std::filesystem::path config = "train.toml";
  std::filesystem::path node_data = "node_data";
  std::filesystem::path trained = "trained";
  std::vector<std::string> command;
};

struct Member {
  std::string name;
  std::unique_ptr<ChildProcess> process;
};

std::vector<std::string> command_of(const UpOptions& options, const std::string& name) {
  if (!options.command.empty()) return options.command;
  const std::string own = std::filesystem::read_symlink("/proc/self/exe").string();
  return {own,
          "node",
          name,
          "--config",
          options.config.string(),
          "--node-data",
          options.node_data.string(),
          "--trained",
          options.trained.string()};
}

class Run {
 public:
  explicit Run(const StopSignals& signals) : signals_(signals) {}

  void start(const UpOptions& options, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      width_ = std::max(width_, name.size());
      auto process = require(ChildProcess::start({command_of(options, name), {"RAVNEST_NODE=" + name}}));
      members_.push_back({name, std::move(process)});
    }
  }

  // Until all have ended; the exit status of the first that failed, or 0.
  int wait() {
    while (is_anyone_running()) {
      watch();
      for (Member& member : members_) look_after(member);
      if (signals_.came()) {
        signals_.take();
        interrupt();
      }
      if (deadline_ && SystemClock().now() >= *deadline_) escalate();
    }
    was_interrupted_ = was_interrupted_ || signals_.came();
    say_why();
    return was_interrupted_ ? kInterruptedStatus : status_;
  }

 private:
  bool is_anyone_running() const {
    return std::ranges::any_of(members_, [](const Member& member) { return member.process->is_running(); });
  }

  void watch() const {
    std::vector<pollfd> waiting = {{signals_.descriptor(), POLLIN, 0}};
    for (const Member& member : members_) {
      waiting.push_back({member.process->output(), POLLIN, 0});
      waiting.push_back({member.process->exit_descriptor(), POLLIN, 0});
    }
    int timeout_ms = -1;
    if (deadline_) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - SystemClock().now()).count();
      timeout_ms = static_cast<int>(std::max<std::int64_t>(left, 0));
    }
    ::poll(waiting.data(), waiting.size(), timeout_ms);
  }

  void show(const Member& member, const std::vector<std::string>& lines) const {
    for (const std::string& line : lines)
      std::cout << std::left << std::setw(static_cast<int>(width_)) << member.name << " | " << line << std::endl;
  }

  void look_after(Member& member) {
    const auto take = [&](std::string_view line) {
      if (line.ends_with('\r')) line.remove_suffix(1);
      show(member, last_words_.on_line(member.name, line));
    };
    ChildProcess& process = *member.process;
    process.read_output(take);
    pollfd exited = {process.exit_descriptor(), POLLIN, 0};
    if (!process.is_running() || ::poll(&exited, 1, 0) != 1) return;
    const int status = process.wait(take);
    show(member, last_words_.on_end(member.name, status));
    if (status == 0) return;
    show(member, {text("(ended with the status ", status, ")")});
    if (status_ != 0 || was_interrupted_) return;
    status_ = status;
    if (!deadline_) deadline_ = SystemClock().now() + kAfterFailure;
  }

  void signal(int number) const {
    for (const Member& member : members_) member.process->signal(number);
  }

  // What all nodes have to say of one failure, after everything else.
  void say_why() const {
    if (was_interrupted_) std::cerr << "ravnest: the run was interrupted" << std::endl;
    const std::vector<std::string> sentences = last_words_.sentences();
    if (sentences.empty() && status_ != 0) std::cerr << "ravnest: " << last_words_.first_failure() << std::endl;
    for (const std::string& sentence : sentences) {
      if (!was_interrupted_ || sentence.find("was interrupted") == std::string::npos)
        std::cerr << "ravnest: " << sentence << std::endl;
    }
  }

  // A second Ctrl-C is meant.
  void interrupt() {
    if (std::exchange(was_interrupted_, true)) {
      escalate();
      return;
    }
    std::cerr << "ravnest: ending all nodes; Ctrl-C again kills them" << std::endl;
    ask_to_end();
  }

  void ask_to_end() {
    was_asked_ = true;
    signal(SIGINT);
    deadline_ = SystemClock().now() + kAfterInterrupt;
  }

  void escalate() {
    if (!was_asked_) {
      ask_to_end();
      return;
    }
    signal(SIGKILL);
    deadline_.reset();
  }

  const StopSignals& signals_;
  std::size_t width_ = 0;  // of the longest name
  LastWords last_words_;
  std::vector<Member> members_;
  int status_ = 0;
  bool was_interrupted_ = false;
  bool was_asked_ = false;
  std::optional<TimePoint> deadline_;  // after which those that still run are made to end
};

void run_up(const UpOptions& options) {
  StopSignals signals;
  const auto here = require(plan::read_plan_here(options.node_data));
  const std::vector<int> nodes = require(plan::nodes_to_examine(here, "", Wait::of(kLookupTime, signals.descriptor())));
  std::vector<std::string> names;
  for (const int node : nodes) names.push_back(plan::node_name(node));
  Run run(signals);
  run.start(options, names);
  const int status = run.wait();
  signals.block_until_exit();
  if (status != 0) throw CLI::RuntimeError(status);
}

}  // namespace

void add_up(CLI::App& app, bool has_node) {
  CLI::App* command = app.add_subcommand("up", "Run all nodes of the plan that belong on this machine");
  const auto options = std::make_shared<UpOptions>();
  command->add_option("--config", options->config, "Without a command: what `ravnest node` trains with")
      ->capture_default_str();
  command->add_option("--node-data", options->node_data, "The folder with the plan")->capture_default_str();
  command->add_option("--trained", options->trained, "Without a command: where stages are saved")
      ->capture_default_str();
  command->add_option("command", options->command,
                      "What to run for each node, RAVNEST_NODE being its name; by default `ravnest node`");
  command->footer(
      "Starts a process for each node whose identity and address are this machine's, and shows their lines with the\n"
      "node's name in front. Ctrl-C ends them all: those that are not gone after 5 seconds are killed. When one "
      "fails,\n"
      "the others end too, and the last line says why. The exit status is that of the first that failed, 130 after\n"
      "Ctrl-C.\n"
      "\n"
      "Examples:\n"
      "  ravnest up                                trains with train.toml, without Python\n"
      "  ravnest up --config runs/long.toml\n"
      "  ravnest up -- python train.py --epochs 3  the same script for each node");
  command->callback([options, has_node] {
    if (!has_node && options->command.empty())
      require(unsupported("this build has no `ravnest node`, since it has no torch; give the command to run after --"));
    run_up(*options);
  });
}

}  // namespace ravnest::cli
