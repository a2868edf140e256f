// Who asks: the keys of an AWS account, from where AWS's own tools look for them, in their order.
//
//   1. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN
//   2. the profile's aws_access_key_id, aws_secret_access_key and aws_session_token
//   3. the container's: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI, with their token
//   4. the instance's, by its metadata service (IMDSv2), unless AWS_EC2_METADATA_DISABLED=true
//
// Those of 3 and 4 expire: they are fetched again some minutes before.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ravnest/base/mutex.h"
#include "ravnest/object_store/http.h"
#include "ravnest/object_store/settings.h"
#include "ravnest/object_store/sigv4.h"
#include "ravnest/object_store/wall_time.h"

namespace ravnest::object_store {

struct FoundCredentials {
  Credentials credentials;
  std::string from;                 // for messages: "AWS_ACCESS_KEY_ID", "profile lab in ..."
  std::optional<WallTime> expires;  // nothing: they are not known to
};

// What a container's or an instance's service answers with. kCorrupt for anything else, without a word of it: it may
// hold a secret.
Result<FoundCredentials> decode_metadata_credentials(std::string_view body, const std::string& from);

class CredentialSource {
 public:
  CredentialSource(Environment environment, Profile profile, HttpClient& http, std::function<WallTime()> wall)
      : environment_(std::move(environment)), profile_(std::move(profile)), http_(http), wall_(std::move(wall)) {}

  // kNotFound where there are none, with every place that was looked at. Any thread; several wait for the one that
  // fetches.
  Result<FoundCredentials> get();
  // The server has refused these as expired: the next `get` fetches anew, where they come from 3 or 4.
  // Whether it does.
  bool renew(const Credentials& refused);

 private:
  Result<std::optional<FoundCredentials>> from_environment() const;
  Result<std::optional<FoundCredentials>> from_profile() const;
  Result<std::optional<FoundCredentials>> from_container() const;
  Result<FoundCredentials> from_instance() const;
  Result<FoundCredentials> find() const;

  const Environment environment_;
  const Profile profile_;
  HttpClient& http_;
  const std::function<WallTime()> wall_;
  Mutex mutex_;
  std::optional<FoundCredentials> found_ RAVNEST_GUARDED_BY(mutex_);
};

}  // namespace ravnest::object_store
