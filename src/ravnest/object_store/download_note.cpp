#include "ravnest/object_store/download_note.h"

#include <nlohmann/json.hpp>

#include "ravnest/object_store/answers.h"

namespace ravnest::object_store {
namespace {

constexpr std::uint64_t kMostPieces = 1'000'000'000;

std::filesystem::path with_ending(const std::filesystem::path& to, const char* ending) {
  std::filesystem::path path = to;
  path += ending;
  return path;
}

}  // namespace

std::string encode_note_head(const NoteHead& head) {
  const nlohmann::json written = {{"object", head.object},
                                  {"origin", head.origin},
                                  {"etag", head.etag},
                                  {"size", head.size},
                                  {"piece_bytes", head.piece_bytes}};
  // ETags may be any bytes.
  return written.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
}

std::vector<bool> decode_note(std::string_view note, const NoteHead& head) {
  const std::string expected = encode_note_head(head);
  if (!note.starts_with(expected) || head.piece_bytes == 0) return {};
  const std::uint64_t pieces = (head.size + head.piece_bytes - 1) / head.piece_bytes;
  if (pieces > kMostPieces) return {};
  std::vector<bool> whole(pieces);
  note.remove_prefix(expected.size());
  for (std::size_t end = note.find('\n'); end != std::string_view::npos; end = note.find('\n')) {
    const auto number = decode_count(note.substr(0, end));
    if (number.ok() && *number < pieces) whole[*number] = true;
    note.remove_prefix(end + 1);
  }
  return whole;
}

std::filesystem::path part_path(const std::filesystem::path& to) { return with_ending(to, ".ravnest-part"); }
std::filesystem::path note_path(const std::filesystem::path& to) { return with_ending(to, ".ravnest-part.note"); }

}  // namespace ravnest::object_store
