// Brings one node's part of a plan to another machine: `pack` there, `unpack` here.
//
// See package.h for what the archive is. The authority's key is never packed, nor are other nodes' files.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "ravnest/base/status.h"
#include "ravnest/identity/identity.h"

namespace ravnest::plan {

// Writes the package of `node_name` ("node_3") to `archive`, replacing it whole; readable by its owner only, since it
// holds the node's key. kNotFound where there is no plan or no such node in it.
Status pack(const std::filesystem::path& node_data, std::string_view node_name, const std::filesystem::path& archive);

struct UnpackedNode {
  std::string node;
  std::filesystem::path folder;  // node_data/cluster_0/0.0.0.0:8080
  int files = 0;
  std::uint64_t bytes = 0;
};

// Checks the package, the node's identity at `now` included, and only then lays it out in node_data, all or nothing
// (replacement.h). Where node_data holds the same plan, to the byte, the other nodes that were unpacked there stay, so
// that one machine can run several; another plan is replaced entirely. kInvalid, with nothing changed, where the
// package claims the same plan but brings another authority or another node's folder.
Result<UnpackedNode> unpack(const std::filesystem::path& archive, const std::filesystem::path& node_data,
                            identity::WallTime now = std::chrono::system_clock::now());

}  // namespace ravnest::plan
