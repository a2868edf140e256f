#include "ravnest/object_store/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/base/file.h"
#include "ravnest/base/testing/folders.h"
#include "ravnest/object_store/testing/answering_http.h"

namespace ravnest::object_store {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CredentialsFound : public ::testing::Test {
 protected:
  Result<FoundCredentials> get() { return source().get(); }
  CredentialSource& source() {
    if (!source_) {
      auto profile = Profile::open("default", false, folder_.path() / "credentials", folder_.path() / "config");
      source_.emplace(environment_, profile.value(), http_, [this] { return now_; });
    }
    return *source_;
  }
  static std::string header(const HttpRequest& request, std::string_view name) {
    for (const Header& each : request.headers) {
      if (each.name == name) return each.value;
    }
    return "";
  }

  test::TemporaryFolder folder_;
  Environment environment_;
  WallTime now_ = test_time();
  std::function<Result<HttpAnswer>(const HttpRequest&)> answer_ = [](const HttpRequest&) -> Result<HttpAnswer> {
    return unavailable("nobody is there");
  };
  AnsweringHttp http_{[this](const HttpRequest& request) { return answer_(request); }};
  std::optional<CredentialSource> source_;
};

constexpr const char* kAnswer =
    R"({"AccessKeyId":"A","SecretAccessKey":"S","Token":"T","Expiration":"2015-08-30T13:36:00Z","Code":"Success"})";

TEST_F(CredentialsFound, InTheEnvironmentGoFirst) {
  environment_ = {{"AWS_ACCESS_KEY_ID", "A"},
                  {"AWS_SECRET_ACCESS_KEY", "S"},
                  {"AWS_SESSION_TOKEN", "T"},
                  {"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1/x"}};
  const auto found = get();
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->credentials.session_token, "T");
  EXPECT_TRUE(http_.requests.empty());
}

TEST_F(CredentialsFound, HalfAPairSaysWhichHalfIsMissing) {
  environment_ = {{"AWS_ACCESS_KEY_ID", "A"}};
  EXPECT_THAT(get().status().message(), HasSubstr("AWS_ACCESS_KEY_ID is set, but not AWS_SECRET_ACCESS_KEY"));
}

TEST_F(CredentialsFound, WithALineEndInThemAreRefusedWithoutBeingShown) {
  environment_ = {{"AWS_ACCESS_KEY_ID", "A"}, {"AWS_SECRET_ACCESS_KEY", "top\nsecret"}};
  EXPECT_THAT(get().status().message(), AllOf(HasSubstr("control character"), Not(HasSubstr("secret\n"))));
}

TEST_F(CredentialsFound, InTheProfile) {
  ASSERT_TRUE(write_file_atomically(folder_.path() / "credentials",
                                    std::string_view("[default]\naws_access_key_id=A\naws_secret_access_key = S=\n"))
                  .ok());
  const auto found = get();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->credentials.secret_access_key, "S=");
  EXPECT_THAT(found->from, HasSubstr("profile default in"));
}

TEST_F(CredentialsFound, OfAProfileThatAsksOthersNameTheWayAround) {
  ASSERT_TRUE(write_file_atomically(folder_.path() / "config", std::string_view("[default]\nrole_arn = arn\n")).ok());
  EXPECT_THAT(get().status().message(), HasSubstr("aws configure export-credentials --profile default"));
}

TEST_F(CredentialsFound, OfAContainerWithItsToken) {
  ASSERT_TRUE(write_file_atomically(folder_.path() / "token", std::string_view("abc\n")).ok());
  environment_ = {{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:80/keys"},
                  {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", (folder_.path() / "token").string()}};
  answer_ = [](const HttpRequest&) { return HttpAnswer{200, {}, kAnswer}; };
  const auto found = get();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(header(http_.requests[0], "Authorization"), "abc");
  EXPECT_FALSE(http_.requests[0].through_proxy);
}

TEST_F(CredentialsFound, OfAContainerComeOverPlainHttpFromThisMachineAlone) {
  for (const char* url : {"http://keys.example.com/", "http://127.0.0.1.example.com/", "http://localhost@example.com/",
                          "http://169.254.170.20/", "ftp://127.0.0.1/"}) {
    source_.reset();
    environment_ = {{"AWS_CONTAINER_CREDENTIALS_FULL_URI", url}};
    EXPECT_THAT(get().status().message(), HasSubstr("over http:// keys come from this machine alone")) << url;
  }
}

TEST_F(CredentialsFound, OfAnInstanceAreAskedForWithASessionsToken) {
  answer_ = [](const HttpRequest& request) -> Result<HttpAnswer> {
    if (request.method == "PUT") return HttpAnswer{200, {}, "token"};
    if (header(request, "X-aws-ec2-metadata-token") != "token") return HttpAnswer{401, {}, ""};
    return HttpAnswer{200, {}, request.url.ends_with("/") ? "my role\nother" : kAnswer};
  };
  environment_ = {{"AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1338/"}};
  const auto found = get();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->credentials.access_key_id, "A");
  EXPECT_EQ(http_.requests.back().url, "http://127.0.0.1:1338/latest/meta-data/iam/security-credentials/my%20role");
}

TEST_F(CredentialsFound, ThatExpireAreFetchedAgainBefore) {
  environment_ = {{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/keys"}};
  answer_ = [](const HttpRequest&) { return HttpAnswer{200, {}, kAnswer}; };
  ASSERT_TRUE(get().ok());
  now_ += std::chrono::minutes(50);
  ASSERT_TRUE(get().ok());
  EXPECT_EQ(http_.requests.size(), 1U);
  now_ += std::chrono::minutes(6);
  answer_ = [](const HttpRequest&) -> Result<HttpAnswer> { return unavailable("gone"); };
  EXPECT_TRUE(get().ok()) << "they are good for four minutes still";
  EXPECT_EQ(http_.requests.size(), 2U);
  now_ += std::chrono::minutes(5);
  EXPECT_FALSE(get().ok());
}

TEST_F(CredentialsFound, NowhereNameThePlacesThatWereLookedAt) {
  environment_ = {{"AWS_EC2_METADATA_DISABLED", "true"}};
  EXPECT_THAT(get().status().message(), AllOf(HasSubstr("AWS_ACCESS_KEY_ID (not set)"), HasSubstr("profile default in"),
                                              HasSubstr("credentials (there is no such file)"),
                                              HasSubstr("AWS_CONTAINER_CREDENTIALS_FULL_URI is not set"),
                                              HasSubstr("AWS_EC2_METADATA_DISABLED is set")));
  source_.reset();
  environment_ = {};
  EXPECT_THAT(get().status().message(), HasSubstr("nobody is there"));
}

TEST(MetadataCredentials, ThatAreNoneAreNotShown) {
  for (const char* body :
       {"", "secret", "[]", R"({"AccessKeyId":"secret"})", R"({"AccessKeyId":1,"SecretAccessKey":"secret"})",
        R"({"AccessKeyId":"a","SecretAccessKey":"secret","Expiration":"soon"})"}) {
    const auto found = decode_metadata_credentials(body, "it");
    ASSERT_FALSE(found.ok()) << body;
    EXPECT_THAT(found.status().message(), Not(HasSubstr("secret")));
  }
}

}  // namespace
}  // namespace ravnest::object_store
