#include "ravnest/object_store/object_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ravnest::object_store {
namespace {

using ::testing::HasSubstr;

TEST(ObjectName, IsTheBucketAndAllBehindIt) {
  EXPECT_EQ(parse_s3_url("s3://lab/run 7/../ä+%20?#").value(), (ObjectName{"lab", "run 7/../ä+%20?#"}));
  EXPECT_EQ(parse_s3_url("s3://lab").value(), (ObjectName{"lab", ""}));
  EXPECT_EQ(parse_s3_url("s3://lab//a").value(), (ObjectName{"lab", "/a"}));
}

TEST(ObjectName, WithoutABucketSaysWhatIsExpected) {
  for (const char* written : {"s3://", "s3:///key", "s3://a/b", "s3://no spaces/b", "s3://a..b/c", "s3://-ab/c"}) {
    const auto name = parse_s3_url(written);
    ASSERT_FALSE(name.ok()) << written;
    EXPECT_THAT(name.status().message(), HasSubstr("expected s3://BUCKET/KEY"));
  }
  EXPECT_FALSE(parse_s3_url("https://lab/key").ok());
}

TEST(ObjectName, ThatNoServerCanHaveIsRefused) {
  EXPECT_TRUE(parse_s3_url("s3://lab/" + std::string(1024, 'k')).ok());
  EXPECT_FALSE(parse_s3_url("s3://lab/" + std::string(1025, 'k')).ok());
  for (const char* key : {"\xff", "\xc3", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80"})
    EXPECT_FALSE(parse_s3_url(std::string("s3://lab/") + key).ok());
  EXPECT_TRUE(parse_s3_url("s3://lab/\xf0\x9f\x98\x80\xed\x9f\xbf").ok());
}

TEST(ObjectName, IsEncodedByteByByte) {
  EXPECT_EQ(percent_encoded("a b/ä+%?&=~-._", Slash::kKept), "a%20b/%C3%A4%2B%25%3F%26%3D~-._");
  EXPECT_EQ(percent_encoded("a/b", Slash::kEncoded), "a%2Fb");
}

TEST(ObjectName, ThatWasEncodedIsDecodedToTheSame) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(percent_decoded(percent_encoded(all, Slash::kEncoded)).value(), all);
  EXPECT_EQ(percent_decoded("a+b%2B").value(), "a b+");
  for (const char* broken : {"%", "%2", "a%2", "%zz", "%2g"}) EXPECT_FALSE(percent_decoded(broken).ok()) << broken;
}

TEST(ObjectName, ThatCouldLieElsewhereIsNoFile) {
  for (const char* key :
       {"../a", "a/../b", "a/..", "..", ".", "a/./b", "/etc/passwd", "a//b", "a/", "", "a\nb", "a\\b", "a\x7f", "\x01"})
    EXPECT_FALSE(local_path(key).ok()) << key;
  EXPECT_EQ(local_path("run 7/ä..b/.c").value(), std::filesystem::path("run 7/ä..b/.c"));
}

}  // namespace
}  // namespace ravnest::object_store
