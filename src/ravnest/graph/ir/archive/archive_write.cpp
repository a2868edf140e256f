#include "ravnest/archive/windows.h"
#include "ravnest/archive/zip.h"
#include "ravnest/base/file.h"
#include "ravnest/graph/ir/archive/archive.h"
#include "ravnest/graph/ir/archive/archive_layout.h"
#include "ravnest/graph/ir/archive/program.h"
#include "ravnest/graph/ir/archive/sample_inputs.h"
#include "ravnest/graph/ir/verify.h"

namespace ravnest::ir {
namespace {

using nlohmann::json;

json payload_to_json(const archive::Payload& payload, const std::string& file, std::int64_t storage_offset) {
  TensorMeta meta;
  meta.dtype = payload.dtype;
  for (const std::int64_t size : payload.sizes) meta.sizes.push_back({size, ""});
  for (const std::int64_t stride : payload.strides) meta.strides.push_back({stride, ""});
  meta.storage_offset = {storage_offset, ""};
  meta.requires_grad = payload.requires_grad;
  return {{"path_name", file},
          {"is_param", payload.is_parameter},
          {"use_pickle", false},
          {"tensor_meta", tensor_meta_to_json(meta)}};
}

// Writes each storage once, and the config that says which window of it each name is. Payloads have passed `check`, so
// their sizes can be multiplied.
Status write_payloads(archive::ZipWriter& zip, const std::string& root, const archive::NamedPayloads& payloads,
                      const std::string& folder, const std::string& prefix, const std::string& config) {
  const std::vector<archive::Window> windows = archive::windows_of(payloads);
  json entries = json::object();
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    const auto& [name, payload] = payloads[i];
    const std::string file = prefix + std::to_string(windows[i].keeper);
    if (windows[i].keeper == i) {
      if (Status status = zip.add(root + folder + file, windows[i].record); !status.ok()) return status;
    }
    entries[name] = payload_to_json(payload, file, windows[i].storage_offset);
  }
  return zip.add(root + config, json{{"config", std::move(entries)}}.dump());
}

json places(const Graph& graph) {
  json list = json::array();
  for (const Operator& op : graph.operators) list.push_back(op.place);
  return list;
}

json routing_to_json(const Routing& routing) {
  json inputs = json::array();
  for (const Source& source : routing.inputs) inputs.push_back({{"stage", source.stage}, {"index", source.index}});
  return {{"inputs", std::move(inputs)},
          {"consumers", routing.consumers},
          {"model_inputs", routing.model_inputs},
          {"without_inputs", routing.without_inputs}};
}

json signature_to_json(const Signature& signature) {
  return {
      {"in_spec", signature.in_spec}, {"out_spec", signature.out_spec}, {"argument_names", signature.argument_names}};
}

json metadata(const Model& model) {
  json result = {{"format", kMetadataFormat},
                 {"train_places", places(model.train)},
                 {"eval_places", places(model.eval)},
                 {"stage", nullptr},
                 {"checked_precisions", model.checked_precisions}};
  if (model.stage) {
    result["stage"] = {{"index", model.stage->index},
                       {"count", model.stage->count},
                       {"train", routing_to_json(model.stage->train)},
                       {"eval", routing_to_json(model.stage->eval)},
                       {"tied", model.stage->tied},
                       {"train_call", signature_to_json(model.stage->train_call)},
                       {"eval_call", signature_to_json(model.stage->eval_call)},
                       {"state_dict", model.stage->state_dict}};
  }
  return result;
}

Status write_records(archive::ZipWriter& zip, const Model& model, const std::string& root) {
  Status status = write_payloads(zip, root, model.weights, kWeightsFolder, "weight_", kWeightsConfig);
  if (!status.ok()) return status;
  status = write_payloads(zip, root, model.constants, kConstantsFolder, "tensor_", kConstantsConfig);
  if (!status.ok()) return status;
  const Result<std::vector<std::byte>> samples = sample_inputs(model.train);
  if (!samples.ok()) return samples.status();
  if (status = zip.add(root + kSampleInputs, ByteSpan(*samples)); !status.ok()) return status;
  const std::pair<std::string, std::string> texts[] = {{kTrainProgram, encode_program(model.train).dump()},
                                                       {kEvalProgram, encode_program(model.eval).dump()},
                                                       {kMetadata, metadata(model).dump()},
                                                       {"archive_format", "pt2"},
                                                       {"archive_version", "0"},
                                                       {".data/version", "3\n"},
                                                       {kByteOrder, "little"}};
  for (const auto& [name, contents] : texts) {
    if (status = zip.add(root + name, contents); !status.ok()) return status;
  }
  return zip.finish();
}

}  // namespace

Status write_archive(const Model& model, const std::string& name, const std::function<Status(ByteSpan)>& sink) {
  if (Status status = check(model); !status.ok()) return status;
  archive::ZipWriter zip(sink);
  return write_records(zip, model, (name.empty() ? "model" : name) + "/");
}

Status write_archive(const Model& model, const std::filesystem::path& path) {
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file.ok()) return file.status();
  const Status status = write_archive(model, path.stem().string(), [&](ByteSpan bytes) { return file->append(bytes); });
  if (!status.ok()) return status.with_context(path.string());
  return file->commit();
}

}  // namespace ravnest::ir
