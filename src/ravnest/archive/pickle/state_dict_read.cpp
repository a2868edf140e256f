#include <map>
#include <set>
#include <vector>

#include "ravnest/archive/pickle/pickle_read.h"
#include "ravnest/archive/pickle/state_dict.h"
#include "ravnest/archive/pickle/state_dict_format.h"
#include "ravnest/archive/pickle/state_dict_tensors.h"
#include "ravnest/archive/zip.h"
#include "ravnest/base/json_field.h"
#include "ravnest/base/printable.h"
#include "ravnest/base/words/few.h"

namespace ravnest::archive {
namespace {

constexpr std::string_view kPickle = "data.pkl";
constexpr std::string_view kSaveWeights = "save the weights alone: torch.save(model.state_dict(), PATH)";

std::string quoted(std::string_view name) { return text("\"", printable(name), "\""); }

// The archive's one folder, with its slash.
Result<std::string> folder_in(const ZipReader& zip) {
  std::vector<std::string> folders;
  for (const std::string& name : zip.names()) {
    const std::size_t slash = name.find('/');
    if (slash == std::string::npos) continue;
    const std::string_view rest = std::string_view(name).substr(slash + 1);
    if (rest == "models/model.json") return invalid("is a captured model, not weights; give the file of a state dict");
    if (rest == kPickle) folders.push_back(name.substr(0, slash + 1));
  }
  if (folders.size() != 1)
    return invalid("is a zip archive, but not one of torch.save: it has no record of its tensors");
  return folders[0];
}

Status check_byte_order(const ZipReader& zip, const std::string& folder) {
  const std::string name = folder + "byteorder";
  if (!zip.contains(name)) return {};  // torch before 2.1
  const Result<ByteSpan> order = zip.record(name);
  if (!order.ok()) return order.status();
  if (as_string_view(*order) == "little") return {};
  return unsupported("is of a machine with the byte order ", quoted(as_string_view(*order).substr(0, 16)),
                     "; save it on a little-endian one");
}

// The name of the first entry that keeps the dict from being a state dict, and what is wrong with it.
std::string stranger(const PickleValue& dict) {
  for (std::size_t i = 0; i < dict.items.size(); i += 2) {
    if (dict.items[i]->kind != PickleKind::kString) return text("a key is ", described(*dict.items[i]));
    if (!is_tensor(*dict.items[i + 1]))
      return text(quoted(dict.items[i]->text), " is ", described(*dict.items[i + 1]), ", not a tensor");
  }
  return "";
}

// Which values are state dicts; each is looked through once, however many entries it is the value of.
class StateDicts {
 public:
  bool contain(const PickleValue& value) {
    if (value.kind != PickleKind::kDict || value.items.empty()) return false;
    const auto [known, is_new] = known_.try_emplace(&value, false);
    if (is_new) known->second = stranger(value).empty();
    return known->second;
  }

 private:
  std::map<const PickleValue*, bool> known_;
};

// Which of the file's dicts is meant.
Result<const PickleValue*> chosen(const PickleValue& root, std::string_view entry) {
  if (root.kind != PickleKind::kDict) return invalid("holds ", described(root), ", not a state dict; ", kSaveWeights);
  StateDicts state_dicts;
  std::vector<std::string> names;
  const PickleValue* only = nullptr;
  for (std::size_t i = 0; i < root.items.size(); i += 2) {
    if (root.items[i]->kind != PickleKind::kString || !state_dicts.contain(*root.items[i + 1])) continue;
    if (entry == root.items[i]->text) return root.items[i + 1];
    names.push_back(quoted(root.items[i]->text));
    only = root.items[i + 1];
  }
  const std::string there =
      names.empty() ? "no state dict" : text(names.size() == 1 ? "the state dict " : "the state dicts ", few(names));
  if (!entry.empty()) return invalid("has no state dict ", quoted(entry), " among its entries; it has ", there);
  if (stranger(root).empty()) return &root;
  if (find(root, "param_groups") != nullptr) return invalid("is an optimizer's state, not a model's; ", kSaveWeights);
  if (names.size() == 1) return only;
  if (names.empty()) return invalid("is no state dict: ", stranger(root), "; ", kSaveWeights);
  return invalid("has ", there, "; say which one is meant (of the command: --weights-entry)");
}

NamedPayloads tensors_of(const PickleValue& dict, TorchTensors& tensors) {
  NamedPayloads payloads;
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i < dict.items.size(); i += 2) {
    const std::string name(dict.items[i]->text);
    const std::string what = text("tensor ", quoted(name));
    if (!is_utf8(name)) throw DecodeError{corrupt(what, ": the name is not UTF-8")};
    if (!seen.insert(dict.items[i]->text).second) throw DecodeError{corrupt(what, " is there twice")};
    try {
      payloads.emplace_back(name, tensors.tensor(*dict.items[i + 1]));
    } catch (const DecodeError& error) {
      throw DecodeError{error.status.with_context(what)};
    }
  }
  return payloads;
}

Result<NamedPayloads> read_torch_file(ByteSpan bytes, std::shared_ptr<const void> owner, std::string_view entry) {
  if (!bytes.empty() && bytes[0] == std::byte{0x80})
    return unsupported(
        "is a pickle as torch before 1.6 wrote it, or one of something else, and not the zip archive that torch.save "
        "writes; a newer torch converts it: torch.save(torch.load(PATH, weights_only=True), PATH)");
  const Result<ZipReader> zip = ZipReader::open(bytes);
  if (zip.status().code() == Code::kUnsupported)
    return unsupported(zip.status().message(), "; torch.save compresses nothing, but TorchScript models are: ",
                       "of such a one, save the weights, torch.save(torch.jit.load(PATH).state_dict(), ...)");
  if (!zip.ok()) return zip.status();
  const Result<std::string> folder = folder_in(*zip);
  if (!folder.ok()) return folder.status();
  if (Status order = check_byte_order(*zip, *folder); !order.ok()) return order;
  const Result<ByteSpan> record = zip->record(text(*folder, kPickle));
  if (!record.ok()) return record.status();
  const Result<Pickle> pickle = Pickle::read(*record, torch_globals());
  if (!pickle.ok()) {
    const Status& why = pickle.status();
    return why.code() == Code::kUnsupported ? Status(why.code(), text(why.message(), "; ", kSaveWeights)) : why;
  }
  const Result<const PickleValue*> dict = chosen(pickle->root(), entry);
  if (!dict.ok()) return dict.status();
  TorchTensors tensors(*zip, *folder, std::move(owner));
  return tensors_of(**dict, tensors);
}

}  // namespace

Result<NamedPayloads> read_state_dict(ByteSpan bytes, std::shared_ptr<const void> owner, std::string_view what,
                                      std::string_view entry) {
  Result<NamedPayloads> result = invalid("not read");
  try {
    result = read_torch_file(bytes, std::move(owner), entry);
  } catch (const DecodeError& error) {
    result = error.status;
  }
  if (result.ok()) return result;
  return Status(result.status().code(), printable(result.status().message())).with_context(what);
}

}  // namespace ravnest::archive
