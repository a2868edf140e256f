// A node's package: one archive with all that a provider needs of a plan to run one node.
//
// A zip archive of stored records (archive/zip.h): first `manifest.json`, then the files under the paths that they
// have in node_data: `plan.json`, `nodes/node_3.json`, and the files of the node's folder,
// `cluster_0/0.0.0.0:8080/...`. The manifest, all of whose keys are required:
//
//   {"format": "ravnest node package", "version": 1, "node": "node_3",
//    "files": [{"path": "plan.json", "bytes": 120, "sha256": "64 hex digits", "mode": "644"}, ...]}
//
// A mode is "644" or "600"; the node's key has "600". The archive holds that key: it is for one provider only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ravnest/archive/zip.h"
#include "ravnest/base/bytes.h"
#include "ravnest/base/status.h"

namespace ravnest::plan {

struct PackedFile {
  std::string path;
  ByteSpan bytes;  // not owned
  bool is_private = false;
};

struct Package {
  std::string node;
  std::string folder;  // "cluster_0/0.0.0.0:8080"
  std::vector<PackedFile> files;

  // kCorrupt where it is not there.
  Result<ByteSpan> file(std::string_view path) const;
};

// A package from the bytes of an archive, which must outlive it. Trusts nothing: the archive has the files of the
// manifest and no other, with their sizes and digests, each under a path of the shapes above and no other node's; the
// plan, the node's file and its identity are among them. kUnsupported for another version. Reads and writes no file,
// runs nothing. Whether the identity is any good is for check_identity to say.
Result<Package> read_package(ByteSpan archive);

// Writes the archive; what read_package would refuse is kCorrupt here too, before anything is written.
Status write_package(const Package& package, archive::ZipWriter::Sink sink);

}  // namespace ravnest::plan
