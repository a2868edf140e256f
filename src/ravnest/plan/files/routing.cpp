#include "ravnest/plan/files/routing.h"

#include <map>
#include <string>

#include "ravnest/archive/pickle/pickle.h"
#include "ravnest/base/file.h"

namespace ravnest::plan {
namespace {

void write_targets(archive::PickleWriter& pickle, std::int64_t index, const std::vector<std::int32_t>& stages) {
  pickle.integer(index);
  pickle.begin_dict();
  pickle.string("target");
  pickle.begin_list();
  for (const std::int32_t stage : stages) pickle.integer(stage);
  pickle.end_list();
  pickle.end_dict();
}

std::vector<std::byte> inputs_of(const ir::Routing& routing) {
  archive::PickleWriter pickle;
  pickle.begin_dict();
  for (std::size_t i = 0; i < routing.inputs.size(); ++i) {
    const ir::Source& source = routing.inputs[i];
    pickle.integer(static_cast<std::int64_t>(i));
    pickle.begin_dict();
    if (source.stage < 0)
      pickle.string("model_inputs");
    else
      pickle.integer(source.stage);
    pickle.integer(source.index);
    pickle.end_dict();
  }
  pickle.end_dict();
  return pickle.finish();
}

std::vector<std::byte> outputs_of(const ir::Routing& routing) {
  archive::PickleWriter pickle;
  pickle.begin_dict();
  for (std::size_t i = 0; i < routing.consumers.size(); ++i)
    write_targets(pickle, static_cast<std::int64_t>(i), routing.consumers[i]);
  pickle.end_dict();
  return pickle.finish();
}

// Every input of the model, those that only the first stage reads with an empty list.
std::vector<std::byte> model_inputs_of(const std::vector<ir::Model>& stages) {
  std::map<std::int64_t, std::vector<std::int32_t>> later;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const ir::Source& source : stages[s].stage->train.inputs) {
      if (source.stage >= 0) continue;
      std::vector<std::int32_t>& readers = later[source.index];
      if (s > 0) readers.push_back(static_cast<std::int32_t>(s));
    }
  }
  archive::PickleWriter pickle;
  pickle.begin_dict();
  for (const auto& [index, readers] : later) write_targets(pickle, index, readers);
  pickle.end_dict();
  return pickle.finish();
}

}  // namespace

Status write_routing(const std::vector<ir::Model>& stages, int stage, const std::filesystem::path& folder) {
  const ir::Routing& routing = stages[stage].stage->train;
  const auto write = [&](const std::string& name, const std::vector<std::byte>& content) {
    return write_file_atomically(folder / name, ByteSpan(content));
  };
  if (Status status = write(text("submod_", stage, "_input.pkl"), inputs_of(routing)); !status.ok()) return status;
  if (Status status = write(text("submod_", stage, "_output.pkl"), outputs_of(routing)); !status.ok()) return status;
  return stage == 0 ? write("model_inputs.pkl", model_inputs_of(stages)) : Status();
}

}  // namespace ravnest::plan
