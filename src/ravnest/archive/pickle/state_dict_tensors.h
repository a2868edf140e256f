// Tensors as a torch.save pickle has them: calls of torch's own functions, with a storage by its number.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "ravnest/archive/payload.h"
#include "ravnest/archive/pickle/pickle_read.h"
#include "ravnest/archive/zip.h"

namespace ravnest::archive {

// The names that such a pickle may have: the functions that make a tensor or a parameter, and classes of storages and
// elements.
const PickleGlobals& torch_globals();

bool is_tensor(const PickleValue& value);

// Makes payloads of them. Reads each storage once, its checksum included, and hands out slices of it. One owner.
class TorchTensors {
 public:
  // `zip`, and what it reads, outlive this. `folder` is the archive's one folder, with its slash.
  TorchTensors(const ZipReader& zip, std::string folder, std::shared_ptr<const void> owner)
      : zip_(zip), folder_(std::move(folder)), owner_(std::move(owner)) {}

  // Throws DecodeError, as Field does (base/json_field.h), where is_tensor(value) is no tensor after all, or lies
  // outside of its storage.
  Payload tensor(const PickleValue& value);

 private:
  Payload strided(const PickleValue& value);
  std::shared_ptr<const Storage> storage(const PickleValue& reference, Payload& payload);
  std::shared_ptr<const Storage> record(std::string_view key);

  const ZipReader& zip_;
  std::string folder_;
  std::shared_ptr<const void> owner_;
  std::map<std::string, std::shared_ptr<const Storage>, std::less<>> records_;
};

}  // namespace ravnest::archive
