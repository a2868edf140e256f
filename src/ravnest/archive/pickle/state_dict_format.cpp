#include "ravnest/archive/pickle/state_dict_format.h"

#include <nlohmann/json.hpp>

namespace ravnest::archive {

bool has_storage_class(DType dtype) {
  switch (dtype) {
    case DType::kComplex32:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64:
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2FNUZ:
    case DType::kFloat8E8M0FNU: return false;
    default: return true;
  }
}

bool is_utf8(const std::string& name) {
  try {
    return !nlohmann::json(name).dump().empty();
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

}  // namespace ravnest::archive
