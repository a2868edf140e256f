#include "ravnest/stage/simulation/story.h"

#include "ravnest/base/text.h"

namespace ravnest::stage::simulation {
namespace {

std::string_view name(wire::PassKind kind) {
  switch (kind) {
    case wire::PassKind::kTrain: return "train";
    case wire::PassKind::kValidate: return "validate";
    case wire::PassKind::kPredict: return "predict";
    case wire::PassKind::kAverage: return "average";
    case wire::PassKind::kSnapshot: return "snapshot";
  }
  return "unknown";
}

std::string in_words(const wire::PassHead& head) {
  const std::string round = head.round > 0 ? text(", round ", head.round) : std::string();
  const std::string checkpoint = head.checkpoint > 0 ? text(", checkpoint ", head.checkpoint) : std::string();
  return text("pass ", head.pass, " (", name(head.kind), round, checkpoint, ", part ", head.part, " of ", head.parts,
              " of batch ", head.batch, head.update ? ", update" : "", ", asks for ", head.updates, " updates)");
}

std::string rounds_of(const Work& work) {
  return text(work.takes > 0 ? text(", takes round ", work.takes) : std::string(),
              work.gives > 0 ? text(", gives to round ", work.gives) : std::string(),
              work.checkpoint > 0 ? text(", a snapshot for checkpoint ", work.checkpoint) : std::string());
}

std::string list(const std::vector<int>& stages) {
  std::string all;
  for (const int stage : stages) all += text(all.empty() ? "" : " ", stage);
  return all.empty() ? "none" : all;
}

}  // namespace

std::string in_words(const Work& work) {
  switch (work.kind) {
    case WorkKind::kForward: return text("forward of ", in_words(work.head), rounds_of(work));
    case WorkKind::kBackward: return text("backward of pass ", work.head.pass);
    case WorkKind::kAnswer: return text("answer to pass ", work.head.pass);
    case WorkKind::kUpdate: return text("update ", work.number, rounds_of(work));
    case WorkKind::kAverage: return text("averaging update ", work.number, rounds_of(work));
    case WorkKind::kAdopt: return text("values after ", work.number, " updates of stage ", work.from);
  }
  return "unknown";
}

std::string in_words(const Event& event) {
  switch (event.kind) {
    case EventKind::kForward: return text("a forward of ", in_words(event.head), " from stage ", event.from);
    case EventKind::kBackward: return text("an answer to pass ", event.number, " from stage ", event.from);
    case EventKind::kTiedGradients: return text("tied gradients ", event.number, " from stage ", event.from);
    case EventKind::kTiedValues: return text("tied values after ", event.number, " updates from stage ", event.from);
    case EventKind::kReport: return text("the report of pass ", event.number);
    case EventKind::kReady: return text("that stage ", event.from, " is ready for a call");
    case EventKind::kOver:
      return text("from stage ", event.from, " that a call is over after ", event.number, " passes");
    case EventKind::kAccount: return text("the account of stage ", event.from);
    case EventKind::kClosed: return text("from stage ", event.from, " that a call is closed");
    case EventKind::kFailed: return text("of a failure from stage ", event.from);
    case EventKind::kLost: return text("that stage ", event.from, " is lost");
    case EventKind::kLeft: return text("that stage ", event.from, " has left");
    case EventKind::kHeld: return text("that round ", event.number, " holds");
    case EventKind::kWorked:
    case EventKind::kResumed:
    case EventKind::kSettled: break;
  }
  return "nothing";
}

std::string in_words(const wire::Failed& reason) {
  return text("stage ", reason.stage, reason.lost ? " is lost" : " has failed", " (", reason.reason, ")");
}

std::vector<std::string> in_words(const Scenario& scenario) {
  std::vector<std::string> lines;
  std::size_t passes = 0;
  for (const auto& call : scenario.calls) passes += call.size();
  lines.push_back(text(scenario.count(), " stages, ", name(scenario.stages[0].schedule), ", window ", scenario.window(),
                       ", ", scenario.calls.size(), " calls, ", passes, " passes"));
  if (const Rounds& rounds = scenario.rounds(); rounds.held) {
    lines.push_back(text("rounds with other clusters (", name(rounds.mode), ") ",
                         rounds.every > 0 ? text("every ", rounds.every, " updates") : std::string("every epoch")));
  }
  for (const StageOptions& stage : scenario.stages) {
    std::string line = text("stage ", stage.index, " sends to ", list(stage.train.consumers));
    if (stage.evaluate != stage.train) line += text(", evaluating to ", list(stage.evaluate.consumers));
    if (!stage.tied_users.empty()) line += text(", keeps weights of ", list(stage.tied_users));
    lines.push_back(line);
  }
  return lines;
}

}  // namespace ravnest::stage::simulation
