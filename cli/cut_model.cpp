#include "cut_model.h"

#include "ravnest/graph/cost/profile.h"
#include "ravnest/graph/ir/archive/archive.h"
#include "ravnest/plan/clusterize/clusterize.h"

namespace ravnest::cli {
namespace {

Result<ir::Model> read_whole(const std::filesystem::path& archive) {
  Result<ir::Model> model = ir::read_archive(archive);
  if (model.ok() && model->stage)
    return invalid(archive.string(), " is a stage of a model, not a whole one; give the archive that capture wrote");
  return model;
}

}  // namespace

Result<plan::ModelCosts> read_costs(const std::filesystem::path& archive, const plan::TrainingAssumptions& training) {
  const Result<ir::Model> model = read_whole(archive);
  if (!model.ok()) return model.status();
  const Result<graph::Profile> profile = graph::profile_shapes(*model);
  if (!profile.ok()) return profile.status().with_context(archive.string());
  return plan::costs_of(*model, *profile, training);
}

Result<plan::Plan> make_plan(const PlanRequest& request) {
  const Result<ir::Model> model = read_whole(request.archive);
  if (!model.ok()) return model.status();
  const Result<graph::Profile> profile = graph::profile_shapes(*model);
  if (!profile.ok()) return profile.status().with_context(request.archive.string());
  plan::ClusterizeOptions options;
  options.form = request.form;
  options.node_data = request.node_data;
  options.pool_file = request.pool_file;
  options.write = request.write;
  return plan::clusterize(*model, *profile, options);
}

}  // namespace ravnest::cli
