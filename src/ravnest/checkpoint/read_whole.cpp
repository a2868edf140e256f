#include <iterator>

#include "ravnest/base/printable.h"
#include "ravnest/base/words/few.h"
#include "ravnest/checkpoint/assemble.h"
#include "ravnest/checkpoint/names.h"

namespace ravnest::checkpoint {
namespace {

// The part of an entry, if it is the one.
Result<Part> entry_part(const Checkpoint& checkpoint, const PartEntry& entry) {
  const std::filesystem::path path = checkpoint.folder / entry.file;
  Result<Part> part = read_part(path);
  if (part.status().code() == Code::kNotFound)
    return not_found(path.string(), " is not there; ", printable(entry.holder), " has written it");
  if (!part.ok()) return part;
  const Manifest& manifest = checkpoint.manifest;
  if (part->name != entry.name || part->copy != entry.copy || part->run != manifest.run ||
      part->updates != manifest.updates)
    return corrupt(path.string(), " is ", printable(part->name), " of run ", printable(part->run), " at update ",
                   part->updates, ", and ", kManifestFile, " says ", printable(entry.name), " of run ",
                   printable(manifest.run), " at update ", manifest.updates);
  return part;
}

}  // namespace

std::uint32_t copies(const Manifest& manifest) {
  std::set<std::uint32_t> numbers;
  for (const PartEntry& part : manifest.parts) numbers.insert(part.copy);
  return static_cast<std::uint32_t>(numbers.size());
}

std::set<std::string> parts_of_copy(const Manifest& manifest, std::uint32_t copy) {
  std::set<std::string> names;
  for (const PartEntry& part : manifest.parts) {
    if (part.copy == copy_for(manifest, copy)) names.insert(part.name);
  }
  return names;
}

Result<Whole> read_whole(const Checkpoint& checkpoint, std::uint32_t copy) {
  const std::set<std::string> wanted = parts_of_copy(checkpoint.manifest, copy);
  if (wanted.empty()) return corrupt(checkpoint.folder.string(), ": the checkpoint has no parts");
  std::vector<Part> parts;
  std::vector<std::string> missing;
  for (const PartEntry& each : checkpoint.manifest.parts) {
    if (!wanted.contains(each.name)) continue;
    Result<Part> part = entry_part(checkpoint, each);
    if (part.status().code() == Code::kNotFound) {
      missing.push_back(text(each.file, " (of ", printable(each.holder), ")"));
      continue;
    }
    if (!part.ok()) return part.status();
    parts.push_back(std::move(*part));
  }
  if (!missing.empty())
    return not_found("not all parts are in ", checkpoint.folder.string(), ": ", few(missing),
                     missing.size() == 1 ? " is" : " are",
                     " missing; copy them there from the machines that wrote them");
  Result<Whole> whole = assemble(parts);
  return whole.ok() ? std::move(whole) : whole.status().with_context(checkpoint.folder.string());
}

Result<Part> read_part_of(const Checkpoint& checkpoint, const std::string& name) {
  std::vector<std::string> names;
  for (const PartEntry& each : checkpoint.manifest.parts) {
    if (each.name == name) return entry_part(checkpoint, each);
    names.push_back(printable(each.name));
  }
  return not_found("the checkpoint in ", checkpoint.folder.string(), " has no part ", printable(name), "; it has ",
                   few(names));
}

}  // namespace ravnest::checkpoint
