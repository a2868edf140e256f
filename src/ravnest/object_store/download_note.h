// What of a download is there: the note beside NAME.ravnest-part, by which a later call goes on.
//
// A first line of JSON says of which object, in which version; each line after it has the number of a piece that is
// whole. Lines are only added, so that a kill at any moment costs the pieces on their way and no more; a line without
// its end does not count. Bytes that a crash of the machine took are found by the object's digest at the end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/descriptor.h"
#include "ravnest/base/status.h"

namespace ravnest::object_store {

struct NoteHead {
  std::string object;  // "s3://BUCKET/KEY"
  std::string origin;  // of which endpoint
  std::string etag;
  std::uint64_t size = 0;
  std::uint64_t piece_bytes = 0;

  friend bool operator==(const NoteHead&, const NoteHead&) = default;
};

std::string encode_note_head(const NoteHead& head);

// Which pieces are whole, one entry for each; none where the note is of something else, or no note.
std::vector<bool> decode_note(std::string_view note, const NoteHead& head);

// Where the unfinished download of a file stands, and the note beside it.
std::filesystem::path part_path(const std::filesystem::path& to);
std::filesystem::path note_path(const std::filesystem::path& to);

}  // namespace ravnest::object_store
