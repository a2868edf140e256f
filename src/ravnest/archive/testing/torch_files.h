// Files as torch.save writes them, put together from a pickle and storages.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ravnest/archive/testing/payloads.h"
#include "ravnest/archive/zip.h"

namespace ravnest::archive::testing {

using Files = std::vector<std::pair<std::string, std::string>>;

// A zip archive of these, below the folder "m".
inline std::string zip_of(const Files& files) {
  ByteWriter out;
  ZipWriter zip(into(out));
  Status status;
  for (const auto& [name, contents] : files) {
    if (status.ok()) status = zip.add("m/" + name, std::string_view(contents));
  }
  if (status.ok()) status = zip.finish();
  return status.ok() ? std::string(as_string_view(out.bytes())) : text(status);
}

inline std::string binunicode(std::string_view characters) {
  ByteWriter out;
  out.u8('X');
  out.u32(static_cast<std::uint32_t>(characters.size()));
  out.string(characters);
  return std::string(as_string_view(out.bytes()));
}

// The instructions for ('storage', torch.CLASS, KEY, DEVICE, ELEMENTS), as a persistent id.
inline std::string storage_id(std::string_view type, std::string_view key, char elements,
                              std::string_view device = "cpu") {
  return text("(", binunicode("storage"), "c", type, "\n", binunicode(key), binunicode(device), "K", elements, "tQ");
}

// The same for a tensor on such a storage, of one dimension. `sizes` and the like are instructions.
struct TensorText {
  std::string storage = storage_id("torch\nFloatStorage", "0", 2);
  std::string offset = std::string("K\0", 2);
  std::string sizes = "K\2\x85";
  std::string strides = "K\1\x85";
  std::string more = "";
  std::string function = "ctorch._utils\n_rebuild_tensor_v2\n";

  operator std::string() const {  // NOLINT(google-explicit-constructor)
    return function + "(" + storage + offset + sizes + strides + "\x89" + "ccollections\nOrderedDict\n)R" + more + "tR";
  }
};

// A pickle of {KEY: VALUE, ...}; the values are instructions.
inline std::string dict_of(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string result = "}(";
  for (const auto& [key, value] : entries) result += binunicode(key) + value;
  return result + "u";
}
inline std::string pickle_of(const std::string& value) { return "\x80\2" + value + "."; }

// Two floats, 1 and 2.
inline const std::string kTwoFloats = std::string("\0\0\x80\x3f\0\0\0\x40", 8);

// A file with that pickle, and the two floats as its storage 0.
inline std::string torch_file(const std::string& value, const std::string& storage = kTwoFloats) {
  return zip_of({{"data.pkl", pickle_of(value)}, {"byteorder", "little"}, {"data/0", storage}, {"version", "3\n"}});
}

}  // namespace ravnest::archive::testing
