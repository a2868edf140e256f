#include "ravnest/object_store/answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/object_store/xml.h"

namespace ravnest::object_store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Xml, HasElementsTextAndEntities) {
  const auto root = parse_xml(
      "<?xml version=\"1.0\"?>\n<!-- a -->\n<n:A x='>' xmlns:n=\"y\"><B>1 &lt;&amp;&#x41;&#228; "
      "2</B><C/><B><![CDATA[<z>]]></B></n:A>\n");
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(root->name, "A");
  EXPECT_EQ(root->child_text("B"), "1 <&Aä 2");
  EXPECT_EQ(root->children.size(), 3U);
  EXPECT_EQ(root->children[2].text, "<z>");
  EXPECT_EQ(root->child("D"), nullptr);
}

TEST(Xml, ThatIsNoneOrDangerousIsRefused) {
  for (const char* text :
       {"", "a", "<a>", "<a></b>", "<a/><b/>", "<a>&x;</a>", "<a>&#0;</a>", "<a>&#xd800;</a>", "<a", "<a b='",
        "<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>", "<a><![CDATA[</a>", "<a>&#99999999;</a>", "< a/>"})
    EXPECT_FALSE(parse_xml(text).ok()) << text;
}

TEST(Xml, HasAnEndToItsDepthAndItsElements) {
  std::string deep;
  for (int i = 0; i <= kMostXmlDepth; ++i) deep += "<a>";
  EXPECT_THAT(parse_xml(deep).status().message(), HasSubstr("nested too deep"));
  std::string many = "<a>";
  for (std::size_t i = 0; i < kMostXmlElements; ++i) many += "<a/>";
  EXPECT_THAT(parse_xml(many + "</a>").status().message(), HasSubstr("too many"));
}

TEST(Answers, ListHasObjectsFoldersAndTheNextPage) {
  const auto page = decode_list(R"(<ListBucketResult xmlns="x"><EncodingType>url</EncodingType>
    <IsTruncated>true</IsTruncated><NextContinuationToken>t=</NextContinuationToken>
    <Contents><Key>a%2Bb+c%0A</Key><Size>5</Size><ETag>&quot;e&quot;</ETag><LastModified>now</LastModified></Contents>
    <CommonPrefixes><Prefix>d%C3%A4/</Prefix></CommonPrefixes></ListBucketResult>)");
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->objects.size(), 1U);
  EXPECT_EQ(page->objects[0].key, "a+b c\n");
  EXPECT_EQ(page->objects[0].size, 5U);
  EXPECT_EQ(page->objects[0].etag, "e");
  EXPECT_THAT(page->folders, ElementsAre("dä/"));
  EXPECT_EQ(page->next, "t=");
}

TEST(Answers, KeysOfAServerThatDoesNotEncodeStayAsTheyAre) {
  const auto page =
      decode_list("<ListBucketResult><Contents><Key>a%2Bb+c</Key><Size>5</Size></Contents></ListBucketResult>");
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->objects[0].key, "a%2Bb+c");
}

TEST(Answers, ThatContradictThemselvesAreCorrupt) {
  for (const char* body :
       {"<Other/>", "<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key><Size>99999999999999999999</Size></Contents></ListBucketResult>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"})
    EXPECT_EQ(decode_list(body).status().code(), Code::kCorrupt) << body;
  EXPECT_FALSE(
      decode_parts("<ListPartsResult><Part><PartNumber>0</PartNumber><Size>1</Size></Part></ListPartsResult>").ok());
  EXPECT_FALSE(
      decode_parts("<ListPartsResult><Part><PartNumber>10001</PartNumber><Size>1</Size></Part></ListPartsResult>")
          .ok());
  EXPECT_FALSE(decode_upload_id("<InitiateMultipartUploadResult/>").ok());
}

TEST(Answers, ErrorOfAnyBodyIsWhatItSays) {
  const ServerError error =
      decode_error("<Error><Code>NoSuchBucket</Code><Message>a\x01</Message><Region>eu</Region></Error>");
  EXPECT_EQ(error.code, "NoSuchBucket");
  EXPECT_EQ(error.message.find('\x01'), std::string::npos);
  EXPECT_EQ(error.region, "eu");
  EXPECT_EQ(decode_error("<html>").code, "");
}

}  // namespace
}  // namespace ravnest::object_store
