#include "ravnest/object_store/requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/object_store/retry.h"
#include "ravnest/object_store/testing/answering_http.h"

namespace ravnest::object_store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

HttpAnswer error_answer(int status, std::string code, std::vector<Header> headers = {}) {
  return {status, std::move(headers), "<Error><Code>" + code + "</Code><Message>so it is</Message></Error>"};
}

class RequestsTo : public ::testing::Test {
 protected:
  // Answers one after the other; the last for all that follow.
  Result<HttpAnswer> send(std::vector<Result<HttpAnswer>> answers, S3Request request = get_request(),
                          Environment more = {}) {
    answers_ = std::move(answers);
    sent_ = 0;
    auto http = std::make_unique<AnsweringHttp>([this](const HttpRequest& each) {
      if (each.take) each.take(as_byte_span("x"));
      return answers_[std::min(sent_++, answers_.size() - 1)];
    });
    http_ = http.get();
    more.merge(test_environment());
    requests_.emplace(read_settings(more).value(), more, std::move(http), RequestOptions(), test_.surroundings());
    return requests_->send(request);
  }
  static S3Request get_request() { return {.action = "get s3://lab/k", .method = "GET", .name = {"lab", "k"}}; }

  TestSurroundings test_;
  std::vector<Result<HttpAnswer>> answers_;
  std::size_t sent_ = 0;
  AnsweringHttp* http_ = nullptr;
  std::optional<Requests> requests_;
};

TEST_F(RequestsTo, AServerThatStumblesAreSentAgainWithGrowingPauses) {
  const auto answer = send({unavailable("cut"), error_answer(500, "InternalError"), error_answer(503, "SlowDown"),
                            deadline("nothing came"), HttpAnswer{200, {}, "bytes"}});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->body, "bytes");
  EXPECT_THAT(test_.pauses, ElementsAre(milliseconds(500), seconds(1), seconds(2), seconds(4)));
}

TEST_F(RequestsTo, AServerThatDoesNotRecoverEndWithItsWordsAndTheNumberOfAttempts) {
  const auto answer = send({error_answer(503, "SlowDown")});
  EXPECT_EQ(answer.status().code(), Code::kUnavailable);
  EXPECT_THAT(
      answer.status().message(),
      AllOf(HasSubstr("cannot get s3://lab/k: the server says 503 SlowDown: so it is"), HasSubstr("(8 attempts)")));
  EXPECT_EQ(sent_, 8U);
}

TEST_F(RequestsTo, AServerThatNeverAnsweredEndSooner) {
  EXPECT_THAT(send({unavailable("no such host")}).status().message(), HasSubstr("no such host (4 attempts)"));
}

TEST_F(RequestsTo, AServerThatAsksForAPauseWaitForIt) {
  ASSERT_TRUE(send({error_answer(503, "SlowDown", {{"retry-after", "7"}}), HttpAnswer{200, {}, ""}}).ok());
  EXPECT_THAT(test_.pauses, ElementsAre(seconds(7)));
}

TEST_F(RequestsTo, ADownloadThatMovesAreNotCounted) {
  S3Request request = get_request();
  request.take = [](ByteSpan) { return true; };
  std::vector<Result<HttpAnswer>> answers(30, unavailable("cut"));
  answers.emplace_back(HttpAnswer{200, {}, ""});
  EXPECT_TRUE(send(answers, request).ok());
}

TEST_F(RequestsTo, AnythingEndWhenTheCallerWantsThemTo) {
  S3Request request = get_request();
  request.go_on = [](std::uint64_t) { return false; };
  EXPECT_EQ(send({unavailable("cut")}, request).status().code(), Code::kCancelled);
}

TEST_F(RequestsTo, AServerAreSignedWithWhatIsSent) {
  S3Request request = get_request();
  request.name.key = "a b/../ä+";
  request.query = {{"uploadId", "x=/ "}, {"a", ""}};
  ASSERT_TRUE(send({HttpAnswer{200, {}, ""}}, request, {{"AWS_SESSION_TOKEN", "T"}}).ok());
  const HttpRequest& sent = http_->requests.at(0);
  EXPECT_EQ(sent.url, "http://127.0.0.1:9/lab/a%20b/../%C3%A4%2B?a=&uploadId=x%3D%2F%20");
  EXPECT_THAT(sent.headers.back().value,
              HasSubstr("SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token, "));
}

TEST_F(RequestsTo, ASlowEndOfAnUploadThatFailsInItsBodyAreSentAgain) {
  S3Request request = get_request();
  request.is_slow = true;
  const auto answer = send({error_answer(200, "InternalError"), HttpAnswer{200, {}, "<Done/>"}}, request);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->body, "<Done/>");
}

TEST_F(RequestsTo, AServerThatAsksForAnMd5AreSentWithIt) {
  S3Request request = get_request();
  request.body_md5 = std::string(16, '\0');
  const HttpAnswer asks{400,
                        {},
                        "<Error><Code>InvalidRequest</Code><Message>Content-MD5 OR x-amz-checksum- HTTP header is "
                        "required for Put Object requests with Object Lock parameters</Message></Error>"};
  ASSERT_TRUE(send({asks, HttpAnswer{200, {}, ""}}, request).ok());
  const auto has_md5 = [](const HttpRequest& sent) {
    return std::ranges::any_of(sent.headers, [](const Header& each) {
      return each.name == "Content-MD5" && each.value == "AAAAAAAAAAAAAAAAAAAAAA==";
    });
  };
  EXPECT_FALSE(has_md5(http_->requests.at(0)));
  EXPECT_TRUE(has_md5(http_->requests.at(1)));
  EXPECT_EQ(send({asks}, request).status().code(), Code::kInvalid) << "asked for once";
}

// What people are told.

TEST_F(RequestsTo, ABucketThatIsNotThereSaySo) {
  const Status status = send({error_answer(404, "NoSuchBucket")}).status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("there is no bucket lab at http://127.0.0.1:9 (AWS_ENDPOINT_URL)"));
}

TEST_F(RequestsTo, AServerWithAWrongSecretNameTheKeyAndWhereItIsFrom) {
  EXPECT_THAT(send({error_answer(403, "SignatureDoesNotMatch")}).status().message(),
              AllOf(HasSubstr("403 SignatureDoesNotMatch: so it is"),
                    HasSubstr("The secret key is not that of AKIDTEST (from AWS_ACCESS_KEY_ID)")));
  EXPECT_EQ(sent_, 1U);
}

TEST_F(RequestsTo, AServerWithAnotherClockSayBothTimes) {
  const std::vector<Header> date = {{"date", "Sun, 30 Aug 2015 14:36:00 GMT"}};
  for (const char* code : {"RequestTimeTooSkewed", "AccessDenied"}) {
    EXPECT_THAT(
        send({error_answer(403, code, date)}).status().message(),
        HasSubstr("the clocks differ: it is 2015-08-30 12:36:00 UTC here and 2015-08-30 14:36:00 UTC at the server"));
  }
}

TEST_F(RequestsTo, AnotherRegionNameTheRightOne) {
  const Result<HttpAnswer> moved = error_answer(301, "PermanentRedirect", {{"x-amz-bucket-region", "eu-west-1"}});
  const Result<HttpAnswer> malformed =
      HttpAnswer{400, {}, "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>"};
  for (const auto& answer : {moved, malformed}) {
    EXPECT_THAT(send({answer}).status().message(),
                HasSubstr("the bucket lab is in the region eu-west-1, not in us-east-1 (nothing says otherwise); set "
                          "AWS_REGION=eu-west-1"));
  }
}

TEST_F(RequestsTo, AnObjectThatWasChangedMeanwhileAreCorrupt) {
  const Status status = send({error_answer(412, "PreconditionFailed")}).status();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("the object was changed meanwhile"));
}

TEST_F(RequestsTo, AServerWithoutRightsPointToWhatIsNeeded) {
  EXPECT_THAT(send({error_answer(403, "AccessDenied")}).status().message(),
              AllOf(HasSubstr("403 AccessDenied"), HasSubstr("AKIDTEST"), HasSubstr("docs/object_storage.md")));
}

TEST_F(RequestsTo, AServerWithKeysThatExpireAreSentAgainWithNewOnes) {
  int fetched = 0;
  auto http = std::make_unique<AnsweringHttp>([&](const HttpRequest& request) {
    if (request.url.find("/keys") != std::string::npos) {
      return HttpAnswer{
          200,
          {},
          text(R"({"AccessKeyId":"A)", ++fetched, R"(","SecretAccessKey":"S","Expiration":"2015-08-30T13:36:00Z"})")};
    }
    const bool is_first = request.headers.back().value.find("=A1/") != std::string::npos;
    return is_first ? error_answer(400, "ExpiredToken") : HttpAnswer{200, {}, "fine"};
  });
  const Environment environment = {{"AWS_ENDPOINT_URL", "http://127.0.0.1:9"},
                                   {"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:8/keys"}};
  Requests requests(read_settings(environment).value(), environment, std::move(http), {}, test_.surroundings());
  const auto answer = requests.send(get_request());
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(fetched, 2);
}

TEST(Pauses, GrowToTwentySecondsAndShrinkByHalfAtMost) {
  EXPECT_EQ(pause_after(1, 0), milliseconds(500));
  EXPECT_EQ(pause_after(100, 0), seconds(20));
  EXPECT_GT(pause_after(100, 0.999), seconds(10));
}

}  // namespace
}  // namespace ravnest::object_store
