#include "ravnest/graph/ir/archive/sample_inputs.h"

#include <algorithm>

#include "ravnest/archive/pickle/pickle.h"
#include "ravnest/archive/zip.h"
#include "ravnest/base/bytes.h"
#include "ravnest/graph/ir/tree_spec.h"

namespace ravnest::ir {
namespace {

class SampleWriter {
 public:
  explicit SampleWriter(const Graph& graph) : graph_(graph) {
    for (const Input& input : graph.inputs) {
      if (input.kind == InputKind::kUser || input.kind == InputKind::kFixed) leaves_.push_back(&input);
    }
  }

  Status tree(const TreeSpec& spec) {
    if (spec.is_leaf()) return leaf(*leaves_[next_++]);
    if (spec.type == "builtins.dict" || spec.type == "collections.OrderedDict") return dict(spec);
    const bool is_list = spec.type == "builtins.list";
    is_list ? pickle_.begin_list() : pickle_.begin_tuple();
    for (const TreeSpec& child : spec.children) {
      if (Status status = tree(child); !status.ok()) return status;
    }
    is_list ? pickle_.end_list() : pickle_.end_tuple();
    return {};
  }

  std::vector<std::byte> finish() { return pickle_.finish(); }
  const std::vector<DType>& storages() const { return storages_; }

 private:
  Status dict(const TreeSpec& spec) {
    const Result<std::vector<std::string>> keys = dict_keys(spec);
    if (!keys.ok()) return keys.status();
    pickle_.begin_dict();
    for (std::size_t i = 0; i < keys->size(); ++i) {
      pickle_.string((*keys)[i]);
      if (Status status = tree(spec.children[i]); !status.ok()) return status;
    }
    pickle_.end_dict();
    return {};
  }

  Status leaf(const Input& input) {
    if (input.kind == InputKind::kFixed) return fixed(input.fixed);
    const Value& value = graph_.values[input.value];
    switch (value.kind) {
      case ValueKind::kTensor: tensor(value.tensor); break;
      case ValueKind::kSymInt: pickle_.integer(static_cast<std::int64_t>(value.hint.value_or(0))); break;
      case ValueKind::kSymFloat: pickle_.number(value.hint.value_or(0)); break;
      case ValueKind::kSymBool: pickle_.boolean(value.hint.value_or(0) != 0); break;
    }
    return {};
  }

  Status fixed(const Argument& value) {
    if (const auto* flag = std::get_if<bool>(&value))
      pickle_.boolean(*flag);
    else if (const auto* integer = std::get_if<std::int64_t>(&value))
      pickle_.integer(*integer);
    else if (const auto* number = std::get_if<double>(&value))
      pickle_.number(*number);
    else if (const auto* string = std::get_if<std::string>(&value))
      pickle_.string(*string);
    else if (std::holds_alternative<None>(value))
      pickle_.none();
    else
      return unsupported("a fixed input that is neither a number, a string nor None");
    return {};
  }

  void tensor(const TensorMeta& meta) {
    std::vector<std::int64_t> sizes;
    for (const Size& size : meta.sizes) sizes.push_back(size.hint);
    pickle_.tensor(meta.dtype, std::to_string(storages_.size()), 1, 0, sizes,
                   std::vector<std::int64_t>(sizes.size(), 0), false);
    storages_.push_back(meta.dtype);
  }

  const Graph& graph_;
  std::vector<const Input*> leaves_;
  std::size_t next_ = 0;
  archive::PickleWriter pickle_;
  std::vector<DType> storages_;
};

}  // namespace

Result<std::vector<std::byte>> sample_inputs(const Graph& graph) {
  const Result<TreeSpec> spec = parse_tree_spec(graph.in_spec);
  if (!spec.ok()) return spec.status();
  SampleWriter writer(graph);
  if (Status status = writer.tree(*spec); !status.ok()) return status;
  ByteWriter out;
  archive::ZipWriter zip([&](ByteSpan bytes) {
    out.bytes(bytes);
    return Status();
  });
  Status status = zip.add("model/data.pkl", ByteSpan(writer.finish()));
  if (status.ok()) status = zip.add("model/byteorder", std::string_view("little"));
  for (std::size_t i = 0; status.ok() && i < writer.storages().size(); ++i)
    status = zip.add("model/data/" + std::to_string(i), std::string(item_size(writer.storages()[i]), '\0'));
  if (status.ok()) status = zip.add("model/version", std::string_view("3\n"));
  if (status.ok()) status = zip.finish();
  if (!status.ok()) return status;
  return out.take();
}

}  // namespace ravnest::ir
