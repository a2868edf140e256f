// Whether what is there is what should be there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "ravnest/object_store/http.h"
#include "ravnest/object_store/object_store.h"

namespace ravnest::object_store {

// From the headers of an answer to HEAD or GET; `size` is that of the body.
Result<ObjectFacts> facts_of(const HttpAnswer& answer);

// Whether the ETag in an answer is one that bytes of that MD5 (16 bytes; empty: not known) can have.
bool fits(const HttpAnswer& answer, const std::string& md5);

// The digests, in hexadecimal, of `size` bytes of an open file from its start. `go_on` is asked now and then.
struct FileDigests {
  std::string sha256;
  std::string md5;  // only where asked for
};
Result<FileDigests> digest_file(int descriptor, std::uint64_t size, const std::string& path, bool with_md5,
                                const std::function<bool()>& go_on);

// All of `into` from the file at `offset`; kCorrupt where it ends before.
Status read_at(int descriptor, std::uint64_t offset, std::span<std::byte> into, const std::string& path);

}  // namespace ravnest::object_store
