#include <algorithm>
#include <map>
#include <set>

#include "ravnest/archive/zip.h"
#include "ravnest/base/json.h"
#include "ravnest/base/json_field.h"
#include "ravnest/base/printable.h"
#include "ravnest/base/shared_file.h"
#include "ravnest/graph/ir/archive/archive.h"
#include "ravnest/graph/ir/archive/archive_layout.h"
#include "ravnest/graph/ir/archive/program.h"
#include "ravnest/graph/ir/verify.h"

namespace ravnest::ir {
namespace {

using nlohmann::json;

template <class T>
T unwrap(Result<T> result) {
  if (!result.ok()) throw DecodeError{result.status()};
  return std::move(result).value();
}

class ArchiveReader {
 public:
  ArchiveReader(const archive::ZipReader& zip, std::shared_ptr<const void> owner)
      : zip_(zip), owner_(std::move(owner)) {
    find_root();
  }

  Model read() {
    check_byte_order();
    Model model;
    model.train = program(kTrainProgram);
    model.eval = zip_.contains(root_ + kEvalProgram) ? program(kEvalProgram) : model.train;
    model.weights = payloads(kWeightsConfig, kWeightsFolder);
    model.constants = payloads(kConstantsConfig, kConstantsFolder);
    in_order_of_inputs(model.weights, model.train);
    if (zip_.contains(root_ + kMetadata)) read_metadata(model);
    return model;
  }

 private:
  void find_root() {
    const std::string suffix = std::string("/") + kTrainProgram;
    for (const std::string& name : zip_.names()) {
      if (name.size() > suffix.size() && name.ends_with(suffix) && name.find('/') == name.size() - suffix.size())
        root_ = name.substr(0, name.size() - suffix.size() + 1);
    }
    if (root_.empty())
      throw DecodeError{invalid("not a .pt2 archive of torch.export: it has no ", kTrainProgram,
                                "; write one with ravnest.capture or torch.export.save")};
  }

  ByteSpan record(const std::string& name) const { return unwrap(zip_.record(root_ + name)); }
  json document(const std::string& name) const { return unwrap(parse_json(as_string_view(record(name)), name)); }

  void check_byte_order() const {
    if (!zip_.contains(root_ + kByteOrder)) return;
    const std::string_view order = as_string_view(record(kByteOrder));
    if (order != "little") throw DecodeError{unsupported("byte order \"", order, "\"; only little is read")};
  }

  Graph program(const std::string& name) const { return unwrap(decode_program(document(name), name)); }

  static std::int64_t fixed_size(const Size& size, const Field& where) {
    if (size.symbolic()) where.fail("a stored tensor has a symbolic size");
    return size.hint;
  }

  archive::Payload payload(const std::string& name, const Field& field, const std::string& folder) {
    if (field["use_pickle"].boolean())
      field.refuse(
          text("tensor \"", name, "\" is stored as a pickle, which ravnest never runs; save it as a plain tensor"));
    const auto meta_field = field.optional("tensor_meta");
    if (!meta_field) field.refuse(text("\"", name, "\" is not a tensor"));
    const TensorMeta meta = tensor_meta_from_json(*meta_field);
    archive::Payload payload;
    payload.dtype = meta.dtype;
    for (const Size& size : meta.sizes) payload.sizes.push_back(fixed_size(size, field));
    for (const Size& stride : meta.strides) payload.strides.push_back(fixed_size(stride, field));
    payload.storage_offset = fixed_size(meta.storage_offset, field);
    payload.requires_grad = meta.requires_grad;
    payload.is_parameter = field["is_param"].boolean();
    payload.storage = storage(folder + field["path_name"].string());
    return payload;
  }

  std::shared_ptr<const archive::Storage> storage(const std::string& name) {
    std::shared_ptr<const archive::Storage>& known = storages_[name];
    if (known == nullptr) known = std::make_shared<archive::Storage>(archive::Storage{owner_, record(name)});
    return known;
  }

  archive::NamedPayloads payloads(const std::string& config, const std::string& folder) {
    if (!zip_.contains(root_ + config))
      throw DecodeError{unsupported("the archive has no ", config, "; archives of torch before 2.9 are not read")};
    const json parsed = document(config);
    archive::NamedPayloads result;
    Field(parsed, config)["config"].for_each_member(
        [&](const std::string& name, const Field& field) { result.emplace_back(name, payload(name, field, folder)); });
    return result;
  }

  // JSON objects come sorted by name; the model's own order is that of its inputs.
  static void in_order_of_inputs(archive::NamedPayloads& payloads, const Graph& graph) {
    std::map<std::string, std::size_t> rank;
    for (const Input& input : graph.inputs) rank.emplace(input.target, rank.size());
    const auto place = [&](const auto& entry) {
      const auto found = rank.find(entry.first);
      return found == rank.end() ? rank.size() : found->second;
    };
    std::stable_sort(payloads.begin(), payloads.end(),
                     [&](const auto& a, const auto& b) { return place(a) < place(b); });
  }

  void read_metadata(Model& model) const {
    const json parsed = document(kMetadata);
    const Field metadata(parsed, kMetadata);
    if (metadata["format"].integer() != kMetadataFormat)
      metadata.refuse(
          text("format ", metadata["format"].integer(), "; this version of ravnest reads ", kMetadataFormat));
    read_places(metadata["train_places"], model.train);
    read_places(metadata["eval_places"], model.eval);
    if (const auto stage = metadata.optional("stage")) model.stage = read_stage(*stage, model);
    if (const auto checked = metadata.optional("checked_precisions"))
      checked->for_each([&](const Field& name) { model.checked_precisions.push_back(name.string()); });
  }

  static void read_places(const Field& field, Graph& graph) {
    std::size_t i = 0;
    field.for_each([&](const Field& place) {
      if (i == graph.operators.size()) field.fail("more places than operators");
      graph.operators[i++].place = narrow(place);
    });
    if (i != graph.operators.size()) field.fail("fewer places than operators");
  }

  static std::int32_t narrow(const Field& field) {
    const std::int64_t value = field.integer();
    if (value < -1 || value > INT32_MAX) field.fail("the number is out of range");
    return static_cast<std::int32_t>(value);
  }

  static Routing read_routing(const Field& field, const Graph& graph) {
    Routing routing;
    field["inputs"].for_each([&](const Field& source) {
      routing.inputs.push_back({narrow(source["stage"]), narrow(source["index"])});
    });
    const auto read_stages = [](const Field& list, std::vector<std::int32_t>& stages) {
      list.for_each([&](const Field& stage) { stages.push_back(narrow(stage)); });
    };
    field["consumers"].for_each([&](const Field& each) { read_stages(each, routing.consumers.emplace_back()); });
    field["model_inputs"].for_each([&](const Field& each) { read_stages(each, routing.model_inputs.emplace_back()); });
    read_stages(field["without_inputs"], routing.without_inputs);
    const auto users = std::count_if(graph.inputs.begin(), graph.inputs.end(), [](const Input& input) {
      return input.kind == InputKind::kUser || input.kind == InputKind::kFixed;
    });
    if (routing.inputs.size() != static_cast<std::size_t>(users) || routing.consumers.size() != graph.outputs.size())
      field.fail("as many routes as inputs and outputs expected");
    return routing;
  }

  static Signature read_signature(const Field& field) {
    Signature signature{field["in_spec"].string(), field["out_spec"].string(), {}};
    field["argument_names"].for_each([&](const Field& name) { signature.argument_names.push_back(name.string()); });
    return signature;
  }

  static StageInfo read_stage(const Field& field, const Model& model) {
    StageInfo stage;
    stage.index = narrow(field["index"]);
    stage.count = narrow(field["count"]);
    if (stage.index < 0 || stage.index >= stage.count) field.fail("the stage's number is not below their count");
    stage.train = read_routing(field["train"], model.train);
    stage.eval = read_routing(field["eval"], model.eval);
    field["tied"].for_each_member([&](const std::string& name, const Field& stages) {
      stages.for_each([&](const Field& each) { stage.tied[name].push_back(narrow(each)); });
    });
    stage.train_call = read_signature(field["train_call"]);
    stage.eval_call = read_signature(field["eval_call"]);
    field["state_dict"].for_each([&](const Field& name) { stage.state_dict.push_back(name.string()); });
    return stage;
  }

  const archive::ZipReader& zip_;
  std::shared_ptr<const void> owner_;
  std::string root_;
  std::map<std::string, std::shared_ptr<const archive::Storage>> storages_;
};

// Messages name records and values as the archive does, which may be anything.
Status refusal(const Status& status, std::string_view what) {
  return Status(status.code(), printable(status.message())).with_context(what);
}

}  // namespace

Result<Model> read_archive(ByteSpan bytes, std::shared_ptr<const void> owner, std::string_view what) {
  const Result<archive::ZipReader> zip = archive::ZipReader::open(bytes);
  if (!zip.ok()) return refusal(zip.status(), what);
  try {
    Model model = ArchiveReader(*zip, std::move(owner)).read();
    if (Status status = check(model); !status.ok()) return refusal(status, what);
    return model;
  } catch (const DecodeError& error) {
    return refusal(error.status, what);
  }
}

Result<Model> read_archive(const std::filesystem::path& path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return file.status();
  const ByteSpan bytes = file->bytes();  // which stay where they are
  return read_archive(bytes, share(std::move(*file)), path.string());
}

}  // namespace ravnest::ir
