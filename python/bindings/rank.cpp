// A rank of a data-parallel run, for ravnest.training.rank.
#include "ravnest/train/rank/rank.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bindings.h"
#include "loop.h"
#include "ravnest/strategy/place/place.h"
#include "ravnest/strategy/place/visible_devices.h"
#include "ravnest/train/rank/joint_source.h"
#include "training_process.h"

namespace ravnest::python {
namespace {

namespace py = pybind11;
using train::Rank;

struct PyRankOptions {
  train::RankOptions options;
  std::optional<std::string> token;
  std::string token_source;  // for messages
};

class PyRank final : public TrainingProcess {
 public:
  explicit PyRank(std::unique_ptr<Rank> own) : rank(std::move(own)) {}
  ~PyRank() override {
    const py::gil_scoped_release release;
    rank.reset();
  }

  train::BatchSink& sink() override { return *rank; }
  const graph::Engine& engine() const override { return rank->engine(); }
  std::unique_ptr<train::BatchSource> joint(train::BatchSource& source, const std::string& unit) override {
    return std::make_unique<train::JointSource>(source, *rank, poll, unit);
  }

  std::unique_ptr<Rank> rank;
  const train::Poll poll = poll_signals;
};

strategy::Place place_of(const std::map<std::string, std::string>& environment) {
  strategy::Place place = accepted(strategy::find_place({}, environment, strategy::visible_devices(environment)));
  if (!place.rank && place.world == 1) place.rank = 0;
  if (!place.rank) {
    throw py::value_error(text("this run is to have ", place.world,
                               " ranks, and nobody has said which of them this process is: start the script with "
                               "`ravnest launch -- python ...`, torchrun, srun or mpirun"));
  }
  return place;
}

// What `call(options, poll)` returns. What a signal raises is raised once the others have been told.
template <class Call>
auto among_ranks(PyRankOptions given, const Call& call) {
  train::RankOptions options = std::move(given.options);
  if (given.token) options.rendezvous.token = accepted(strategy::RunToken::parse(*given.token, given.token_source));
  const std::string name = strategy::rank_name(*options.rendezvous.place.rank);
  options.log = Logger(name, Level::kInfo);
  options.rendezvous.log = options.log;
  std::exception_ptr raised;
  const train::Poll poll = [&]() -> Status {
    try {
      return poll_signals();
    } catch (const py::error_already_set&) {
      raised = std::current_exception();
      return cancelled(name, " was interrupted");
    }
  };
  auto outcome = [&] {
    const py::gil_scoped_release release;
    return call(std::move(options), poll);
  }();
  if (raised) std::rethrow_exception(raised);
  return outcome;
}

std::unique_ptr<PyRank> open_rank(PyRankOptions given) {
  return std::make_unique<PyRank>(unwrap(among_ranks(std::move(given), &Rank::open)));
}

// Returns when all ranks know why this one can not be opened, or can not be told.
void withdraw_rank(PyRankOptions given, const std::string& reason) {
  if (given.options.rendezvous.place.world == 1) return;
  (void)among_ranks(std::move(given), [&](const train::RankOptions& options, const train::Poll& poll) {
    return Rank::withdraw(options, reason, poll);
  });
}

void configure(PyRank& own, const PyTrainingOptions& given, bool shows_progress) {
  train::TrainingOptions options = own.options_of(given, shows_progress);
  const py::gil_scoped_release release;
  unwrap(own.rank->configure(std::move(options)));
}

}  // namespace

void bind_rank(py::module_& module) {
  py::class_<strategy::Place>(module, "Place")
      .def_property_readonly("rank", [](const strategy::Place& own) { return own.rank.value_or(0); })
      .def_readonly("world", &strategy::Place::world)
      .def_readonly("local_world", &strategy::Place::local_world)
      .def_readonly("launcher", &strategy::Place::launcher);
  module.def("place_of", &place_of, py::arg("environment"));
  py::class_<PyRankOptions>(module, "RankOptions")
      .def(py::init<>())
      .def_property(
          "model", [](const PyRankOptions& own) { return own.options.model; },
          [](PyRankOptions& own, std::filesystem::path model) { own.options.model = std::move(model); })
      .def_property(
          "trained", [](const PyRankOptions& own) { return own.options.trained; },
          [](PyRankOptions& own, std::filesystem::path trained) { own.options.trained = std::move(trained); })
      .def_property(
          "place", [](const PyRankOptions& own) { return own.options.rendezvous.place; },
          [](PyRankOptions& own, strategy::Place place) { own.options.rendezvous.place = std::move(place); })
      .def_property(
          "software", [](const PyRankOptions& own) { return own.options.rendezvous.software; },
          [](PyRankOptions& own, std::string software) { own.options.rendezvous.software = std::move(software); })
      .def_property(
          "device", [](const PyRankOptions& own) { return own.options.device; },
          [](PyRankOptions& own, c10::Device device) { own.options.device = device; })
      .def_property(
          "gpus_are_chosen", [](const PyRankOptions& own) { return own.options.gpus_are_chosen; },
          [](PyRankOptions& own, bool chosen) { own.options.gpus_are_chosen = chosen; })
      .def_property(
          "broadcast_buffers", [](const PyRankOptions& own) { return own.options.strategy.broadcast_buffers; },
          [](PyRankOptions& own, bool broadcast) { own.options.strategy.broadcast_buffers = broadcast; })
      .def_property(
          "units_are_blocks",
          [](const PyRankOptions& own) { return own.options.strategy.units.rule == graph::UnitRule::kBlocks; },
          [](PyRankOptions& own, bool blocks) {
            own.options.strategy.units.rule = blocks ? graph::UnitRule::kBlocks : graph::UnitRule::kBySize;
          })
      .def_property(
          "trusted_network", [](const PyRankOptions& own) { return own.options.strategy.trusted_network; },
          [](PyRankOptions& own, bool trusted) { own.options.strategy.trusted_network = trusted; })
      .def(
          "set_backend",
          [](PyRankOptions& own, const std::string& name) {
            own.options.strategy.backend = accepted(train::parse_backend(name));
          },
          py::arg("name"))
      .def(
          "set_precision",
          [](PyRankOptions& own, const std::string& precision, const std::string& float32) {
            own.options.strategy.precision = accepted(strategy::parse_precision(precision));
            own.options.strategy.float32 = accepted(train::parse_float32(float32));
          },
          py::arg("precision"), py::arg("float32"))
      .def_readwrite("token", &PyRankOptions::token)
      .def_readwrite("token_source", &PyRankOptions::token_source);
  module.def("withdraw_rank", &withdraw_rank, py::arg("options"), py::arg("reason"));
  py::class_<PyRank, TrainingProcess>(module, "Rank")
      .def(py::init(&open_rank), py::arg("options"))
      .def("configure", &configure, py::arg("options"), py::kw_only(), py::arg("shows_progress"))
      .def_property_readonly("name", [](const PyRank& own) { return own.rank->name(); })
      .def_property_readonly("rank", [](const PyRank& own) { return own.rank->rank(); })
      .def_property_readonly("world", [](const PyRank& own) { return own.rank->world(); })
      .def_property_readonly("device", [](const PyRank& own) { return own.rank->device(); })
      .def(
          "begin_run",
          [](PyRank& own, std::map<std::string, std::string> settings) {
            own.rank->record_settings(std::move(settings));
          },
          py::arg("settings"))
      .def(
          "begin",
          [](PyRank& own, const std::string& call, const std::map<std::string, std::string>& settings) {
            const py::gil_scoped_release release;
            unwrap(own.rank->begin(call, poll_signals, settings));
            const auto& resumed = own.rank->resumed();
            if (resumed && !own.position->go_on) own.position->go_on = train::go_on_from(*resumed);
          },
          py::arg("call"), py::kw_only(), py::arg("settings"))
      .def(
          "finish",
          [](PyRank& own, bool save) {
            const py::gil_scoped_release release;
            unwrap(own.rank->finish({save, "", own.position->epoch}, poll_signals));
          },
          py::kw_only(), py::arg("save"))
      .def(
          "want_end", [](PyRank& own, const std::string& why) { return own.rank->want_end(why); }, py::arg("why"))
      .def("end_wanted", [](const PyRank& own) { return own.rank->end_wanted(); })
      .def(
          "finish_early",
          [](PyRank& own, const std::string& /*run*/) {
            const py::gil_scoped_release release;
            return std::map<std::string, std::string>{
                {"ended_early", unwrap(own.rank->end_early(own.position->epoch, poll_signals))}};
          },
          py::kw_only(), py::arg("run"))
      .def(
          "stop",
          [](PyRank& own, const std::string& reason, bool interrupted) {
            const py::gil_scoped_release release;
            const Status ended = own.rank->stop({reason, interrupted});
            return std::pair(ended.message(), ended.is_of_another());
          },
          py::arg("reason"), py::arg("interrupted"))
      .def("close",
           [](PyRank& own) {
             const py::gil_scoped_release release;
             own.rank->close();
           })
      .def("save", [](PyRank& own) { unwrap(own.rank->save()); })
      .def(
          "summary",
          [](const PyRank& own, double seconds, std::uint64_t samples, std::uint64_t epochs) {
            return report::summary_text(own.rank->summary(seconds, samples, epochs));
          },
          py::kw_only(), py::arg("seconds"), py::arg("samples"), py::arg("epochs"));
}

}  // namespace ravnest::python
