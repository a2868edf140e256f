// ~/.aws/config and ~/.aws/credentials: sections of keys, as AWS's own tools have them.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/status.h"

namespace ravnest::object_store {

// Keys of a section. What stands indented below a key ("s3 =" and then "  addressing_style = path") has both names,
// "s3.addressing_style".
using ProfileSection = std::map<std::string, std::string, std::less<>>;

class ProfileFile {
 public:
  // kCorrupt, with the line's number and without its text, which may hold a secret.
  static Result<ProfileFile> parse(std::string_view text, std::string_view what);
  // An empty one where there is no such file.
  static Result<ProfileFile> read(const std::filesystem::path& path);

  // By the name in its brackets, such as "default", "profile lab" and "services local"; null where there is none.
  const ProfileSection* section(std::string_view name) const;
  const std::map<std::string, ProfileSection, std::less<>>& sections() const { return sections_; }
  bool is_there() const { return is_there_; }

 private:
  std::map<std::string, ProfileSection, std::less<>> sections_;
  bool is_there_ = false;
};

// One profile of both files.
class Profile {
 public:
  Profile() = default;
  // kInvalid where `must_exist` and neither file has it, with those that there are.
  static Result<Profile> open(const std::string& name, bool must_exist, const std::filesystem::path& credentials_file,
                              const std::filesystem::path& config_file);

  const std::string& name() const { return name_; }
  // The credentials file goes first. Empty where the profile does not say.
  std::string value(std::string_view key) const;
  // Of the section "services X" that the profile names, "s3.endpoint_url" for one.
  std::string service_value(std::string_view key) const;
  // "profile NAME in FILE or FILE", for messages; says of a file that is not there that it is not.
  std::string place() const;

 private:
  std::string name_ = "default";
  std::filesystem::path credentials_path_;
  std::filesystem::path config_path_;
  ProfileFile credentials_;
  ProfileFile config_;
};

}  // namespace ravnest::object_store
