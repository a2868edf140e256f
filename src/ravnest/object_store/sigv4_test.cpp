// The signatures that AWS publishes: its Signature Version 4 test suite, and the examples in S3's own documentation.
#include "ravnest/object_store/sigv4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/identity/sha256.h"

namespace ravnest::object_store {
namespace {

using ::testing::HasSubstr;

const Credentials kSuiteKeys{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"};
const SigningScope kSuiteScope{"20150830T123600Z", "us-east-1", "service"};

struct SuiteCase {
  std::string name;
  std::string method;
  std::string path;
  std::vector<QueryItem> query;
  std::vector<Header> headers;
  std::string body;
  std::string signature;
};

class Sigv4Suite : public ::testing::TestWithParam<SuiteCase> {};

TEST_P(Sigv4Suite, SignatureIsAsPublished) {
  const SuiteCase& wanted = GetParam();
  RequestToSign request{wanted.method, wanted.path, wanted.query, wanted.headers,
                        identity::sha256(as_byte_span(wanted.body)).value()};
  request.headers.insert(request.headers.begin(), {"Host", "example.amazonaws.com"});
  request.headers.push_back({"X-Amz-Date", "20150830T123600Z"});
  const auto made = sign(request, kSuiteScope, kSuiteKeys);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->signature, wanted.signature) << made->canonical_request << "\n\n" << made->string_to_sign;
}

INSTANTIATE_TEST_SUITE_P(
    Published, Sigv4Suite,
    ::testing::Values(
        SuiteCase{
            "GetVanilla", "GET", "/", {}, {}, "", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
        SuiteCase{"GetVanillaEmptyQueryKey",
                  "GET",
                  "/",
                  {{"Param1", "value1"}},
                  {},
                  "",
                  "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"},
        SuiteCase{"GetVanillaQueryOrderKeyCase",
                  "GET",
                  "/",
                  {{"Param2", "value2"}, {"Param1", "value1"}},
                  {},
                  "",
                  "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
        SuiteCase{"GetVanillaUtf8Query",
                  "GET",
                  "/",
                  {{"%E1%88%B4", "bar"}},
                  {},
                  "",
                  "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
        SuiteCase{"GetUnreserved",
                  "GET",
                  "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
                  {},
                  {},
                  "",
                  "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
        SuiteCase{"GetUtf8",
                  "GET",
                  "/%E1%88%B4",
                  {},
                  {},
                  "",
                  "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
        SuiteCase{"GetHeaderValueTrim",
                  "GET",
                  "/",
                  {},
                  {{"My-Header1", " value1"}, {"My-Header2", " \"a   b   c\""}},
                  "",
                  "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
        SuiteCase{"GetHeaderKeyDuplicate",
                  "GET",
                  "/",
                  {},
                  {{"My-Header1", "value2"}, {"My-Header1", "value2"}, {"My-Header1", "value1"}},
                  "",
                  "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"},
        SuiteCase{
            "PostVanilla", "POST", "/", {}, {}, "", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
        SuiteCase{"PostVanillaQuery",
                  "POST",
                  "/",
                  {{"Param1", "value1"}},
                  {},
                  "",
                  "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11"},
        SuiteCase{"PostHeaderKeySort",
                  "POST",
                  "/",
                  {},
                  {{"My-Header1", "value1"}},
                  "",
                  "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"},
        SuiteCase{"PostHeaderValueCase",
                  "POST",
                  "/",
                  {},
                  {{"My-Header1", "VALUE1"}},
                  "",
                  "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d"},
        SuiteCase{"PostXWwwFormUrlencoded",
                  "POST",
                  "/",
                  {},
                  {{"Content-Type", "application/x-www-form-urlencoded"}},
                  "Param1=value1",
                  "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"}),
    [](const ::testing::TestParamInfo<SuiteCase>& tried) { return tried.param.name; });

const Credentials kS3Keys{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
const SigningScope kS3Scope{"20130524T000000Z", "us-east-1", "s3"};

std::string s3_signature(RequestToSign request) {
  request.headers.push_back({"Host", "examplebucket.s3.amazonaws.com"});
  request.headers.push_back({"x-amz-date", "20130524T000000Z"});
  request.headers.push_back({"x-amz-content-sha256", request.payload_sha256});
  return sign(request, kS3Scope, kS3Keys).value().signature;
}

const std::string kNoBytes(kEmptySha256);

TEST(Sigv4, GetOfARangeIsSignedAsInS3sDocumentation) {
  EXPECT_EQ(s3_signature({"GET", "/test.txt", {}, {{"Range", "bytes=0-9"}}, kNoBytes}),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(Sigv4, PutIsSignedAsInS3sDocumentation) {
  EXPECT_EQ(s3_signature({"PUT",
                          "/test%24file.text",
                          {},
                          {{"Date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                          identity::sha256(as_byte_span("Welcome to Amazon S3.")).value()}),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

TEST(Sigv4, GetOfALifecycleIsSignedAsInS3sDocumentation) {
  EXPECT_EQ(s3_signature({"GET", "/", {{"lifecycle", ""}}, {}, kNoBytes}),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

TEST(Sigv4, ListIsSignedAsInS3sDocumentation) {
  EXPECT_EQ(s3_signature({"GET", "/", {{"prefix", "J"}, {"max-keys", "2"}}, {}, kNoBytes}),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(Sigv4, AuthorizationNamesTheKeyTheScopeAndTheHeaders) {
  const auto made = sign({"GET", "/", {}, {{"Host", "h"}, {"A", "1"}}, kNoBytes}, kS3Scope, kS3Keys);
  ASSERT_TRUE(made.ok());
  EXPECT_THAT(made->authorization,
              HasSubstr("AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
                        "SignedHeaders=a;host, Signature=" +
                        made->signature));
}

}  // namespace
}  // namespace ravnest::object_store
