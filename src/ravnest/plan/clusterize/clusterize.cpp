#include "ravnest/plan/clusterize/clusterize.h"

#include <set>

#include "ravnest/graph/cut/slice.h"
#include "ravnest/graph/ir/real.h"
#include "ravnest/graph/operators/operators.h"
#include "ravnest/graph/run/input_check.h"
#include "ravnest/plan/files/write.h"
#include "ravnest/plan/sane.h"
#include "ravnest/plan/search/check_options.h"

namespace ravnest::plan {
namespace {

// What whoever trains the model has to know of it, and would otherwise hear from a node that fails.
std::vector<std::string> notes_on(const ir::Model& model) {
  std::vector<std::string> notes;
  for (const std::string& limit : graph::input_limits(model.train))
    notes.push_back(text(limit, ": the captured model takes no other sizes"));
  std::set<std::string> libraries;
  for (const ir::Operator& op : model.train.operators) {
    const std::string library = graph::library_of(op.target);
    if (!library.empty() && libraries.insert(library).second)
      notes.push_back(text("the model uses operators of \"", library, "\" (", op.target, "): every node's script must ",
                           "import what brings them before it makes its Node"));
  }
  return notes;
}

}  // namespace

Result<Plan> clusterize(const ir::Model& model, const graph::Profile& profile, const ClusterizeOptions& options) {
  const std::filesystem::path file =
      options.pool_file.empty() ? options.node_data / "node_configs.json" : options.pool_file;
  const Result<Pool> pool = read_pool(file);
  if (!pool.ok()) return pool.status();
  if (Status status = check_options(options.form, static_cast<int>(pool->nodes.size())); !status.ok()) return status;
  if (Status status = ir::check_real(model); !status.ok()) return status;
  const Result<ModelCosts> costs = costs_of(model, profile, options.form.training);
  if (!costs.ok()) return costs.status();
  FormOptions form = options.form;
  if (options.form.progress) form.progress = [&](double share) { return options.form.progress(share / 2); };
  Result<Formation> formation = form_clusters(*costs, *pool, form);
  if (!formation.ok()) return formation.status();
  for (std::string& note : notes_on(model)) formation->notes.push_back(std::move(note));
  Plan plan = complete_plan(*costs, *pool, *formation, options.form);
  if (Status status = check_figures(plan); !status.ok()) return status;
  if (!options.write) return plan;
  const auto progress = [&](double share) { return !options.form.progress || options.form.progress(0.5 + share / 2); };
  const auto stages_of = [&](int cluster) { return graph::slice(model, plan.cuts(cluster)); };
  if (Status status = write_plan(plan, stages_of, options.node_data, progress); !status.ok()) return status;
  return plan;
}

}  // namespace ravnest::plan
