#include "ravnest/object_store/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/base/file.h"
#include "ravnest/base/testing/folders.h"

namespace ravnest::object_store {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SettingsOfFiles : public ::testing::Test {
 protected:
  void write(const std::string& name, std::string_view text) {
    ASSERT_TRUE(write_file_atomically(folder_.path() / name, text).ok());
  }
  Environment with(Environment more) const {
    more.emplace("AWS_CONFIG_FILE", (folder_.path() / "config").string());
    more.emplace("AWS_SHARED_CREDENTIALS_FILE", (folder_.path() / "credentials").string());
    return more;
  }

  test::TemporaryFolder folder_;
};

TEST_F(SettingsOfFiles, WithoutAnythingAreAwsInTheFirstRegion) {
  const auto settings = read_settings({});
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->region, "us-east-1");
  EXPECT_EQ(settings->endpoint.url(), "https://s3.us-east-1.amazonaws.com");
}

TEST_F(SettingsOfFiles, EnvironmentGoesBeforeTheProfile) {
  write("config", "[default]\nregion = eu-west-1\nendpoint_url = http://profile:1\n");
  auto settings = read_settings(with({}));
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->region, "eu-west-1");
  EXPECT_EQ(settings->endpoint.url(), "http://profile:1");
  settings =
      read_settings(with({{"AWS_DEFAULT_REGION", "b"}, {"AWS_REGION", "a"}, {"AWS_ENDPOINT_URL", "http://any:2"}}));
  EXPECT_EQ(settings->region, "a");
  EXPECT_EQ(settings->endpoint.url(), "http://any:2");
  settings =
      read_settings(with({{"AWS_ENDPOINT_URL_S3", "https://s3:443/base/"}, {"AWS_ENDPOINT_URL", "http://any:2"}}));
  EXPECT_EQ(settings->endpoint.url(), "https://s3/base");
  EXPECT_EQ(settings->endpoint_from, "AWS_ENDPOINT_URL_S3");
}

TEST_F(SettingsOfFiles, ProfileHasServicesAndNestedKeys) {
  write("config",
        "# a comment\r\n[profile lab]\r\nservices = local ; and one\r\ns3 =\r\n  addressing_style = virtual\r\n"
        "[services local]\ns3 =\n  endpoint_url = http://127.0.0.1:9000\n");
  const auto settings = read_settings(with({{"AWS_PROFILE", "lab"}}));
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->endpoint.url(), "http://127.0.0.1:9000");
  EXPECT_EQ(settings->addressing, Addressing::kVirtual);
}

TEST_F(SettingsOfFiles, ProfileThatIsNotThereIsNamedWithThoseThatAre) {
  write("config", "[default]\n[profile lab]\n");
  write("credentials", "[other]\n");
  EXPECT_THAT(read_settings(with({{"AWS_PROFILE", "lob"}})).status().message(),
              AllOf(HasSubstr("AWS_PROFILE is lob"), HasSubstr("there are: default, lab, other")));
}

TEST_F(SettingsOfFiles, BrokenFileIsNamedByLineWithoutItsText) {
  write("credentials", "[default]\naws_secret_access_key topsecret\n");
  EXPECT_THAT(read_settings(with({})).status().message(),
              AllOf(HasSubstr("credentials, line 2: expected KEY = VALUE"), Not(HasSubstr("topsecret"))));
}

TEST_F(SettingsOfFiles, OddValuesAreRefusedWithWhereTheyStand) {
  EXPECT_THAT(read_settings({{"AWS_REGION", "eu west"}}).status().message(), HasSubstr("is no region (AWS_REGION)"));
  for (const char* url : {"s3.local", "ftp://a", "http://", "http://a b", "http://u@h", "http://h:port", "http://h?x",
                          "http://h/..", "http://:80", "http://h:123456"})
    EXPECT_THAT(read_settings({{"AWS_ENDPOINT_URL", url}}).status().message(), HasSubstr("is no endpoint; expected"))
        << url;
  EXPECT_THAT(read_settings({{"RAVNEST_S3_ADDRESSING", "both"}}).status().message(),
              HasSubstr("expected path, virtual or auto"));
}

TEST(Target, IsAHostOfTheBucketsOwnWithAws) {
  const Settings settings = read_settings({{"AWS_REGION", "eu-west-1"}}).value();
  EXPECT_EQ(target_of(settings, {"lab", "a b/../c"}).host, "lab.s3.eu-west-1.amazonaws.com");
  EXPECT_EQ(target_of(settings, {"lab", "a b/../c"}).path, "/a%20b/../c");
  EXPECT_EQ(target_of(settings, {"lab", ""}).path, "/");
  EXPECT_EQ(target_of(settings, {"my.lab", "a"}).host, "s3.eu-west-1.amazonaws.com");
  EXPECT_EQ(target_of(settings, {"my.lab", "a"}).path, "/my.lab/a");
}

TEST(Target, IsAPathAtAnEndpointUnlessAskedFor) {
  Environment environment = {{"AWS_ENDPOINT_URL", "http://[::1]:9000/s3"}};
  EXPECT_EQ(target_of(read_settings(environment).value(), {"lab", "k"}).origin, "http://[::1]:9000");
  EXPECT_EQ(target_of(read_settings(environment).value(), {"lab", "k"}).path, "/s3/lab/k");
  EXPECT_EQ(target_of(read_settings(environment).value(), {"lab", ""}).path, "/s3/lab");
  environment = {{"AWS_ENDPOINT_URL", "http://local:9000"}, {"RAVNEST_S3_ADDRESSING", "virtual"}};
  EXPECT_EQ(target_of(read_settings(environment).value(), {"lab", "k"}).host, "lab.local:9000");
}

}  // namespace
}  // namespace ravnest::object_store
