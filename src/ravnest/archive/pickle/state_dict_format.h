// What the writer and the reader of torch.save files share.
#pragma once

#include <string>

#include "ravnest/base/dtype.h"

namespace ravnest::archive {

// Whether torch has a storage class of this type, such as torch.FloatStorage. Tensors of other types lie on bytes.
bool has_storage_class(DType dtype);

// Whether Python could have this as a string.
bool is_utf8(const std::string& name);

}  // namespace ravnest::archive
