// Transfers over a server in memory, with several threads: under all sanitizers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "ravnest/base/testing/folders.h"
#include "ravnest/identity/sha256.h"
#include "ravnest/object_store/cache.h"
#include "ravnest/object_store/curl_library.h"
#include "ravnest/object_store/download_note.h"
#include "ravnest/object_store/testing/answering_http.h"
#include "ravnest/object_store/testing/memory_s3.h"

namespace ravnest::object_store {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::size_t kPart = 1000;

class Transfers : public test::FolderTest {
 protected:
  Transfers() {
    auto http = std::make_unique<MemoryS3>();
    server_ = http.get();
    StoreOptions options;
    options.part_bytes = kPart;
    options.multipart_from = 2 * kPart;
    auto requests = std::make_unique<Requests>(read_settings(test_environment()).value(), test_environment(),
                                               std::move(http), RequestOptions(), test_.surroundings());
    store_ = std::make_unique<ObjectStore>(std::move(requests), options);
    for (std::size_t i = 0; i < 10 * kPart + 7; ++i) large_ += static_cast<char>(i * i >> 3);
  }

  std::size_t asked(const std::string& beginning) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(server_->sent(), [&](const std::string& each) { return each.starts_with(beginning); }));
  }

  TestSurroundings test_;
  MemoryS3* server_ = nullptr;
  std::unique_ptr<ObjectStore> store_;
  std::string large_;
  const ObjectName name_{"lab", "key"};
  const std::filesystem::path file_ = folder_ / "file";
  const std::filesystem::path back_ = folder_ / "back";
};

TEST_F(Transfers, InPartsArriveWithTheirDigest) {
  test::write(file_, large_);
  std::atomic<std::uint64_t> most = 0;
  const Status put = store_->put_file(file_, name_, [&](std::uint64_t done, std::uint64_t all) {
    most = std::max(most.load(), done);
    EXPECT_EQ(all, large_.size());
    return true;
  });
  ASSERT_TRUE(put.ok()) << put;
  EXPECT_EQ(most, large_.size());
  const MemoryS3::Object there = server_->objects().at("key");
  EXPECT_EQ(there.bytes, large_);
  EXPECT_EQ(there.sha256, identity::sha256(as_byte_span(large_)).value());
  EXPECT_EQ(asked("PUT /lab/key?partNumber="), 11U);
  ASSERT_TRUE(store_->get_file(name_, back_).ok());
  EXPECT_EQ(read_file(back_).value(), large_);
  EXPECT_EQ(test::names_in(folder_), (std::set<std::string>{"back", "file"}));
}

TEST_F(Transfers, ThatWereInterruptedGoOnWithWhatTheServerHas) {
  test::write(file_, large_);
  const Status interrupted =
      store_->put_file(file_, name_, [](std::uint64_t done, std::uint64_t) { return done < 5 * kPart; });
  EXPECT_EQ(interrupted.code(), Code::kCancelled);
  ASSERT_EQ(server_->uploads().size(), 1U);
  const std::size_t there = server_->uploads().begin()->second.parts.size();
  ASSERT_GE(there, 5U);
  ASSERT_LT(there, 11U);
  ASSERT_TRUE(store_->put_file(file_, name_).ok());
  EXPECT_EQ(server_->received_bytes() / kPart, large_.size() / kPart) << "no part was sent twice";
  EXPECT_EQ(server_->objects().at("key").bytes, large_);
  EXPECT_THAT(server_->uploads(), IsEmpty());
}

TEST_F(Transfers, OfAFileThatChangedSinceTheLastTryAreOfTheNewOne) {
  test::write(file_, large_);
  ASSERT_FALSE(store_->put_file(file_, name_, [](std::uint64_t done, std::uint64_t) { return done < 5 * kPart; }).ok());
  large_.back() ^= 1;
  test::write(file_, large_);
  ASSERT_TRUE(store_->put_file(file_, name_).ok());
  EXPECT_EQ(server_->objects().at("key").sha256, identity::sha256(as_byte_span(large_)).value());
}

TEST_F(Transfers, ThatMayNotAreTakenBack) {
  test::write(file_, large_);
  server_->instead = [](const HttpRequest& request) -> std::optional<Result<HttpAnswer>> {
    if (request.url.find("partNumber=7") == std::string::npos) return std::nullopt;
    return HttpAnswer{403, {}, "<Error><Code>QuotaExceeded</Code></Error>"};
  };
  EXPECT_THAT(store_->put_file(file_, name_).message(), HasSubstr("cannot put part 7 of s3://lab/key"));
  EXPECT_THAT(server_->uploads(), IsEmpty());
}

TEST_F(Transfers, OfBytesThatTheServerHasOtherwiseFail) {
  test::write(file_, large_);
  server_->instead = [](const HttpRequest& request) -> std::optional<Result<HttpAnswer>> {
    if (request.url.find("partNumber=7") == std::string::npos) return std::nullopt;
    return HttpAnswer{200, {{"etag", "\"" + std::string(32, '0') + "\""}}, ""};
  };
  EXPECT_THAT(store_->put_file(file_, name_).message(), HasSubstr("with the ETag 000"));
}

TEST_F(Transfers, WhoseEtagsAreNoMd5AreHeldAgainstTheDigestAlone) {
  test::write(file_, large_);
  server_->instead = [](const HttpRequest& request) -> std::optional<Result<HttpAnswer>> {
    if (request.url.find("partNumber=7") == std::string::npos) return std::nullopt;
    return HttpAnswer{
        200, {{"etag", "\"" + std::string(32, '0') + "\""}, {"x-amz-server-side-encryption", "aws:kms"}}, ""};
  };
  EXPECT_THAT(store_->put_file(file_, name_).message(), HasSubstr("s3://lab/key is not what was put"))
      << "part 7 did not get there";
}

TEST_F(Transfers, DownGoOnWithThePiecesThatAreThere) {
  server_->put("key", large_);
  const Status interrupted =
      store_->get_file(name_, back_, [](std::uint64_t done, std::uint64_t) { return done < 5 * kPart; });
  EXPECT_EQ(interrupted.code(), Code::kCancelled);
  EXPECT_FALSE(std::filesystem::exists(back_));
  const std::size_t asked_before = asked("GET /lab/key");
  ASSERT_TRUE(store_->get_file(name_, back_).ok());
  EXPECT_EQ(read_file(back_).value(), large_);
  EXPECT_LE(asked("GET /lab/key") - asked_before, 7U);
}

TEST_F(Transfers, DownOfAnotherVersionThanTheLastTrysBeginAnew) {
  server_->put("key", large_);
  ASSERT_FALSE(store_->get_file(name_, back_, [](std::uint64_t done, std::uint64_t) { return done < 5 * kPart; }).ok());
  large_[0] ^= 1;
  server_->put("key", large_);
  ASSERT_TRUE(store_->get_file(name_, back_).ok());
  EXPECT_EQ(read_file(back_).value(), large_);
}

TEST_F(Transfers, DownWhoseDigestDiffersLeaveNothing) {
  server_->put("key", large_, std::string(64, '0'));
  const Status got = store_->get_file(name_, back_);
  EXPECT_EQ(got.code(), Code::kCorrupt);
  EXPECT_THAT(test::names_in(folder_), IsEmpty());
}

TEST_F(Transfers, OfBytesAreVerifiedToo) {
  ASSERT_TRUE(store_->put_bytes(as_byte_span("some"), name_).ok());
  EXPECT_EQ(store_->get_bytes(name_, 4).value(), "some");
  EXPECT_EQ(store_->get_bytes(name_, 3).status().code(), Code::kInvalid);
  server_->put("key", "some", std::string(64, '0'));
  EXPECT_EQ(store_->get_bytes(name_, 4).status().code(), Code::kCorrupt);
}

TEST_F(Transfers, ThatWereRemovedAreGoneOnceAndForAll) {
  server_->put("key", "some");
  EXPECT_TRUE(store_->remove(name_).ok());
  EXPECT_EQ(store_->head(name_).status().code(), Code::kNotFound);
  EXPECT_TRUE(store_->remove(name_).ok()) << "what is not there need not be removed";
}

TEST_F(Transfers, IntoTheCacheAreMadeOnceForEachVersion) {
  server_->put("key", "one");
  const auto first = cached_file(*store_, name_, folder_ / "cache");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->filename(), "key");
  EXPECT_EQ(cached_file(*store_, name_, folder_ / "cache").value(), *first);
  EXPECT_EQ(asked("GET"), 1U);
  server_->put("key", "two");
  const auto second = cached_file(*store_, name_, folder_ / "cache");
  EXPECT_EQ(read_file(second.value()).value(), "two");
  EXPECT_EQ(read_file(*first).value(), "one");
}

TEST(CurlLibrary, ThatIsNotThereNamesThePackage) {
  EXPECT_THAT(load_curl("libnone.so.4").status().message(), HasSubstr("apt-get install libcurl4"));
  EXPECT_THAT(load_curl("libc.so.6").status().message(), HasSubstr("it is no libcurl"));
}

}  // namespace
}  // namespace ravnest::object_store
