#include "ravnest/archive/pickle/state_dict_tensors.h"

#include <algorithm>
#include <array>
#include <optional>

#include "ravnest/archive/pickle/state_dict_format.h"
#include "ravnest/base/json_field.h"
#include "ravnest/base/printable.h"

namespace ravnest::archive {
namespace {

constexpr std::string_view kTensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kTypedTensor = "torch._utils._rebuild_tensor_v3";  // on bytes, with its type beside it
constexpr std::string_view kParameter = "torch._utils._rebuild_parameter";
constexpr std::string_view kParameterWithState = "torch._utils._rebuild_parameter_with_state";
constexpr std::string_view kSize = "torch.Size";
constexpr std::array<std::string_view, 2> kByteStorages = {"torch.storage.UntypedStorage", "torch.UntypedStorage"};
constexpr std::size_t kMostDimensions = 64;  // as torch has it

template <class... Ts>
[[noreturn]] void refuse_tensor(const Ts&... parts) {
  throw DecodeError{unsupported(parts...)};
}
template <class... Ts>
[[noreturn]] void fail_tensor(const Ts&... parts) {
  throw DecodeError{corrupt(parts...)};
}

template <class Name>
std::optional<DType> type_called(std::string_view name, const Name& name_of) {
  for (int i = 0; i <= static_cast<int>(DType::kUInt64); ++i) {
    if (text("torch.", name_of(static_cast<DType>(i))) == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

bool calls(const PickleValue& value, std::string_view function) {
  return value.kind == PickleKind::kCall && value.items[0]->text == function;
}

const std::vector<const PickleValue*>& arguments_of(const PickleValue& call, std::size_t least, std::size_t most) {
  const auto& arguments = call.items[1]->items;
  if (arguments.size() < least || arguments.size() > most)
    fail_tensor("calls ", call.items[0]->text, " with ", arguments.size(), " arguments");
  return arguments;
}

const PickleValue& expect(const PickleValue& value, PickleKind kind, std::string_view what) {
  if (value.kind != kind) fail_tensor(what, " is ", described(value));
  return value;
}

std::vector<std::int64_t> numbers_of(const PickleValue& value, std::string_view what) {
  const PickleValue& tuple = calls(value, kSize) ? *arguments_of(value, 1, 1)[0] : value;
  const auto& items = expect(tuple, PickleKind::kTuple, what).items;
  if (items.size() > kMostDimensions) fail_tensor("has ", items.size(), " dimensions");
  std::vector<std::int64_t> numbers;
  for (const PickleValue* item : items) numbers.push_back(expect(*item, PickleKind::kInteger, what).integer);
  return numbers;
}

// {'conj': True} or {'neg': True}, for elements that are yet to be changed.
void check_metadata(const PickleValue& value) {
  if (value.kind == PickleKind::kNone) return;
  const auto& items = expect(value, PickleKind::kDict, "its metadata").items;
  for (std::size_t i = 1; i < items.size(); i += 2) {
    if (items[i]->kind != PickleKind::kBoolean || items[i]->integer != 0)
      refuse_tensor("is a conjugated or negated view; save its clone()");
  }
}

}  // namespace

const PickleGlobals& torch_globals() {
  static const PickleGlobals globals = [] {
    PickleGlobals names;
    for (const std::string_view name : {kTensor, kTypedTensor, kParameter, kParameterWithState, kSize})
      names.emplace(name);
    names.insert(kByteStorages.begin(), kByteStorages.end());
    for (int i = 0; i <= static_cast<int>(DType::kUInt64); ++i) {
      const auto dtype = static_cast<DType>(i);
      names.insert(text("torch.", dtype_name(dtype)));
      if (has_storage_class(dtype)) names.insert(text("torch.", storage_class(dtype)));
    }
    return names;
  }();
  return globals;
}

bool is_tensor(const PickleValue& value) { return value.kind == PickleKind::kCall && !calls(value, kSize); }

Payload TorchTensors::tensor(const PickleValue& value) {
  const bool with_state = calls(value, kParameterWithState);
  Payload payload;
  if (with_state || calls(value, kParameter)) {
    const auto& arguments = with_state ? arguments_of(value, 4, 4) : arguments_of(value, 3, 3);
    payload = strided(*arguments[0]);
    payload.is_parameter = true;
    payload.requires_grad = expect(*arguments[1], PickleKind::kBoolean, "its requires_grad").integer != 0;
  } else {
    payload = strided(value);
  }
  if (const Status status = check(payload); !status.ok()) throw DecodeError{status};
  return payload;
}

// (storage, offset, sizes, strides, requires_grad, hooks[, metadata]); the typed one has its type behind the hooks.
Payload TorchTensors::strided(const PickleValue& value) {
  const bool typed = calls(value, kTypedTensor);
  if (!typed && !calls(value, kTensor)) fail_tensor("is ", described(value));
  const std::size_t least = typed ? 7 : 6;
  const auto& arguments = arguments_of(value, least, least + 1);
  Payload payload;
  if (typed) {
    const auto dtype = type_called(expect(*arguments[6], PickleKind::kGlobal, "its type").text, dtype_name);
    if (!dtype) fail_tensor("its type is ", arguments[6]->text);
    payload.dtype = *dtype;
  }
  const auto bytes = storage(*arguments[0], payload);
  payload.storage_offset = expect(*arguments[1], PickleKind::kInteger, "its offset").integer;
  payload.sizes = numbers_of(*arguments[2], "a size");
  payload.strides = numbers_of(*arguments[3], "a stride");
  payload.requires_grad = expect(*arguments[4], PickleKind::kBoolean, "its requires_grad").integer != 0;
  if (arguments.size() > least) check_metadata(*arguments[least]);
  payload.storage = bytes;
  return payload;
}

// ('storage', class, key, device, elements). The class says the type, unless the storage is one of bytes; on which
// device it was is of no matter.
std::shared_ptr<const Storage> TorchTensors::storage(const PickleValue& reference, Payload& payload) {
  const auto& id =
      expect(*expect(reference, PickleKind::kReference, "its storage").items[0], PickleKind::kTuple, "its storage")
          .items;
  if (id.size() < 5 || id[0]->kind != PickleKind::kString || id[0]->text != "storage") fail_tensor("has no storage");
  const std::string_view type = expect(*id[1], PickleKind::kGlobal, "its storage's class").text;
  const std::string_view key = expect(*id[2], PickleKind::kString, "its storage's name").text;
  const std::int64_t elements = expect(*id[4], PickleKind::kInteger, "its storage's size").integer;
  std::size_t item = 1;
  if (std::find(kByteStorages.begin(), kByteStorages.end(), type) == kByteStorages.end()) {
    const auto dtype = type_called(type, storage_class);
    if (!dtype) fail_tensor("its storage is ", type);
    payload.dtype = *dtype;
    item = item_size(*dtype);
  }
  auto bytes = record(key);
  if (elements < 0 || static_cast<std::uint64_t>(elements) > bytes->bytes.size() / item)
    fail_tensor("its storage ", printable(key), " should have ", elements, " elements of ", item, " bytes, but has ",
                bytes->bytes.size(), " bytes");
  return bytes;
}

std::shared_ptr<const Storage> TorchTensors::record(std::string_view key) {
  const auto known = records_.find(key);
  if (known != records_.end()) return known->second;
  const Result<ByteSpan> bytes = zip_.record(text(folder_, "data/", key));
  if (!bytes.ok()) throw DecodeError{bytes.status()};
  auto storage = std::make_shared<const Storage>(Storage{owner_, *bytes});
  records_.emplace(key, storage);
  return storage;
}

}  // namespace ravnest::archive
