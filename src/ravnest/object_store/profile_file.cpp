#include "ravnest/object_store/profile_file.h"

#include <algorithm>
#include <set>

#include "ravnest/base/file.h"
#include "ravnest/base/printable.h"

namespace ravnest::object_store {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string_view stripped(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

// A comment behind a value has a blank before it.
std::string_view without_comment(std::string_view line) {
  for (std::size_t i = 1; i < line.size(); ++i) {
    if ((line[i] == '#' || line[i] == ';') && (line[i - 1] == ' ' || line[i - 1] == '\t')) return line.substr(0, i);
  }
  return line;
}

// "profile  lab" as "profile lab".
std::string section_name(std::string_view written) {
  const std::string_view name = stripped(written);
  const std::size_t blank = name.find_first_of(" \t");
  if (blank == std::string_view::npos) return std::string(name);
  std::string_view rest = stripped(name.substr(blank));
  if (rest.size() >= 2 && (rest.front() == '"' || rest.front() == '\'') && rest.back() == rest.front())
    rest = rest.substr(1, rest.size() - 2);
  return text(name.substr(0, blank), " ", rest);
}

}  // namespace

Result<ProfileFile> ProfileFile::parse(std::string_view text, std::string_view what) {
  ProfileFile file;
  file.is_there_ = true;
  ProfileSection* section = nullptr;
  std::string outer;  // the key that indented lines belong to
  int number = 0;
  const auto wrong = [&](std::string_view why) { return corrupt(what, ", line ", number, ": ", why); };
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    const std::string_view words = stripped(without_comment(line));
    if (words.empty() || words.front() == '#' || words.front() == ';') continue;
    const bool indented = line.front() == ' ' || line.front() == '\t';
    if (!indented && words.front() == '[') {
      if (words.back() != ']') return wrong("a section's name without its ]");
      section = &file.sections_[section_name(words.substr(1, words.size() - 2))];
      outer.clear();
      continue;
    }
    if (section == nullptr) return wrong("a key before the first [section]");
    const std::size_t equals = words.find('=');
    if (equals == std::string_view::npos || equals == 0) return wrong("expected KEY = VALUE");
    const std::string key(stripped(words.substr(0, equals)));
    const std::string value(stripped(words.substr(equals + 1)));
    const bool nested = indented && !outer.empty();
    (*section)[nested ? outer + "." + key : key] = value;
    if (!nested) outer = value.empty() ? key : "";
  }
  return file;
}

Result<ProfileFile> ProfileFile::read(const std::filesystem::path& path) {
  if (path.empty()) return ProfileFile();
  const auto text = read_file(path);
  if (!text.ok()) return text.status().code() == Code::kNotFound ? Result<ProfileFile>(ProfileFile()) : text.status();
  return parse(*text, path.string());
}

const ProfileSection* ProfileFile::section(std::string_view name) const {
  const auto found = sections_.find(name);
  return found == sections_.end() ? nullptr : &found->second;
}

Result<Profile> Profile::open(const std::string& name, bool must_exist, const std::filesystem::path& credentials_file,
                              const std::filesystem::path& config_file) {
  auto credentials = ProfileFile::read(credentials_file);
  if (!credentials.ok()) return credentials.status();
  auto config = ProfileFile::read(config_file);
  if (!config.ok()) return config.status();
  Profile profile;
  profile.name_ = name;
  profile.credentials_path_ = credentials_file;
  profile.config_path_ = config_file;
  profile.credentials_ = std::move(*credentials);
  profile.config_ = std::move(*config);
  const bool is_there = profile.credentials_.section(name) != nullptr ||
                        profile.config_.section("profile " + name) != nullptr ||
                        profile.config_.section(name) != nullptr;
  if (is_there || !must_exist) return profile;
  std::set<std::string> names;
  for (const auto& [section, keys] : profile.credentials_.sections()) names.insert(section);
  for (const auto& [section, keys] : profile.config_.sections()) {
    if (section.starts_with("profile ")) names.insert(section.substr(8));
    if (section == "default") names.insert(section);
  }
  return invalid("AWS_PROFILE is ", printable(name), ", but there is no ", profile.place(),
                 names.empty() ? "" : "; there are: ", printable(join(names)));
}

std::string Profile::value(std::string_view key) const {
  const std::string in_config = name_ == "default" ? "default" : "profile " + name_;
  for (const ProfileSection* section :
       {credentials_.section(name_), config_.section(in_config), config_.section("profile " + name_)}) {
    if (section == nullptr) continue;
    if (const auto found = section->find(key); found != section->end() && !found->second.empty()) return found->second;
  }
  return {};
}

std::string Profile::service_value(std::string_view key) const {
  const std::string services = value("services");
  const ProfileSection* section = services.empty() ? nullptr : config_.section("services " + services);
  if (section == nullptr) return {};
  const auto found = section->find(key);
  return found == section->end() ? "" : found->second;
}

std::string Profile::place() const {
  const auto shown = [](const std::filesystem::path& path, const ProfileFile& file) {
    return text(path.string(), file.is_there() ? "" : " (there is no such file)");
  };
  if (credentials_path_.empty()) return text("profile ", printable(name_), " (HOME is not set)");
  return text("profile ", printable(name_), " in ", shown(credentials_path_, credentials_), " or ",
              shown(config_path_, config_));
}

}  // namespace ravnest::object_store
