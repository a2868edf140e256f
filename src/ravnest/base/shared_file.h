// A mapped file as the owner of its bytes: for those who hand out slices and do not know how long they are needed.
#pragma once

#include <memory>

#include "ravnest/base/bytes.h"
#include "ravnest/base/file.h"

namespace ravnest {

// Keeps the mapping until the last owner lets go.
std::shared_ptr<const void> share(MappedFile file);

// Gives back the memory of these bytes where `owner` is a shared file; any other owner's stay. For those who have
// copied them: who reads them again takes them from the file again. Whole pages only.
void forget(const std::shared_ptr<const void>& owner, ByteSpan bytes);

}  // namespace ravnest
