#include "ravnest/archive/zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

namespace ravnest::archive {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Bytes = std::vector<std::byte>;
using Records = std::vector<std::pair<std::string, std::string>>;

Bytes zip_of(const Records& records, ZipLimits limits = {}) {
  ByteWriter out;
  ZipWriter writer(
      [&](ByteSpan bytes) {
        out.bytes(bytes);
        return Status();
      },
      limits);
  for (const auto& [name, contents] : records) EXPECT_TRUE(writer.add(name, contents).ok());
  EXPECT_TRUE(writer.finish().ok());
  return out.take();
}

const Records kRecords = {{"model/data", "some contents"}, {"model/empty", ""}, {"b", std::string(200, 'x')}};

template <class T>
T get(const Bytes& bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

template <class T>
void put(Bytes& bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

// Where the end record and the directory's first line of an archive without zip64 fields start.
std::size_t end_of(const Bytes& bytes) { return bytes.size() - 22; }
std::size_t directory_of(const Bytes& bytes) { return get<std::uint32_t>(bytes, end_of(bytes) + 16); }

std::string failure(const Bytes& bytes) {
  const Result<ZipReader> reader = ZipReader::open(bytes);
  return reader.ok() ? "opened" : reader.status().message();
}

// Whether all that the damaged archive still hands out is something that was put in.
bool nothing_but_originals(const Bytes& bytes) {
  const Result<ZipReader> reader = ZipReader::open(bytes);
  if (!reader.ok()) return !reader.status().message().empty();
  std::set<std::string, std::less<>> originals;
  for (const auto& [name, contents] : kRecords) originals.insert(contents);
  for (const std::string& name : reader->names()) {
    const Result<ByteSpan> record = reader->record(name);
    if (record.ok() && !originals.contains(as_string_view(*record))) return false;
  }
  return true;
}

TEST(Zip, WhatIsWrittenReadsBackTheSame) {
  const Bytes bytes = zip_of(kRecords);
  const Result<ZipReader> reader = ZipReader::open(bytes);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_THAT(reader->names(), ElementsAre("b", "model/data", "model/empty"));
  for (const auto& [name, contents] : kRecords) EXPECT_EQ(as_string_view(reader->record(name).value()), contents);
}

TEST(Zip, EveryRecordStartsAtAMultipleOf64Bytes) {
  Records records;
  for (int i = 0; i < 70; ++i) records.emplace_back(std::string(i + 1, 'n'), std::string(i, 'c'));
  const Bytes bytes = zip_of(records);
  const Result<ZipReader> reader = ZipReader::open(bytes);
  ASSERT_TRUE(reader.ok()) << reader.status();
  for (const auto& [name, contents] : records)
    EXPECT_EQ((reader->record(name).value().data() - bytes.data()) % 64, 0) << name;
}

TEST(Zip, AnArchiveWithoutRecordsIsAnArchive) {
  const Bytes bytes = zip_of({});
  EXPECT_EQ(bytes.size(), 22U);
  EXPECT_TRUE(ZipReader::open(bytes).value().names().empty());
}

TEST(Zip, EqualRecordsGiveEqualBytes) { EXPECT_EQ(zip_of(kRecords), zip_of(kRecords)); }

TEST(Zip, AMissingRecordIsNamed) {
  const Bytes bytes = zip_of(kRecords);
  EXPECT_THAT(ZipReader::open(bytes).value().record("c").status().message(), HasSubstr("no record c"));
}

TEST(Zip, AFailingSinkEndsTheWriting) {
  ZipWriter writer([](ByteSpan) { return unavailable("disk full"); });
  EXPECT_EQ(writer.add("a", std::string_view("x")).code(), Code::kUnavailable);
}

TEST(Zip, ALongerNameThanTheFormatAllowsIsRefused) {
  ZipWriter writer([](ByteSpan) { return Status(); });
  EXPECT_EQ(writer.add(std::string(0x10000, 'n'), std::string_view()).code(), Code::kInvalid);
}

TEST(Zip, RecordsThatAreLargeByTheLimitsReadBackThroughTheir64BitFields) {
  for (const ZipLimits limits : {ZipLimits{0, 0}, ZipLimits{50, 0xffff}, ZipLimits{0xffffffff, 1}}) {
    const Bytes bytes = zip_of(kRecords, limits);
    const Result<ZipReader> reader = ZipReader::open(bytes);
    ASSERT_TRUE(reader.ok()) << reader.status();
    for (const auto& [name, contents] : kRecords) {
      EXPECT_EQ(as_string_view(reader->record(name).value()), contents);
      EXPECT_EQ((reader->record(name).value().data() - bytes.data()) % 64, 0);
    }
    EXPECT_EQ(get<std::uint16_t>(bytes, end_of(bytes) + 10), 0xffff) << "the count is in the zip64 end record";
  }
}

TEST(Zip, A64BitDirectoryThatLiesIsAnError) {
  const Bytes good = zip_of(kRecords, {0, 0});
  const std::size_t locator = end_of(good) - 20;
  const std::size_t end64 = get<std::uint64_t>(good, locator + 8);
  for (const std::uint64_t lie :
       {std::uint64_t{0}, std::uint64_t{good.size()}, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    Bytes bytes = good;
    put(bytes, locator + 8, lie);
    EXPECT_THAT(failure(bytes), HasSubstr("zip64 end record is not where"));
    for (const std::size_t field : {std::size_t{40}, std::size_t{48}}) {  // the directory's size and offset
      bytes = good;
      put(bytes, end64 + field, lie);
      EXPECT_NE(failure(bytes), "opened");
    }
  }
  Bytes bytes = good;
  put(bytes, end64 + 32, ~std::uint64_t{0});  // count
  EXPECT_THAT(failure(bytes), HasSubstr("directory is damaged"));
}

TEST(Zip, A64BitFieldThatIsMissingOrTooShortIsAnError) {
  Bytes bytes = zip_of(kRecords);
  put(bytes, directory_of(bytes) + 24, 0xffffffffU);  // "the size is in the zip64 field", of which there is none
  put(bytes, directory_of(bytes) + 20, 0xffffffffU);
  EXPECT_THAT(failure(bytes), HasSubstr("runs past the end"));
  bytes = zip_of({{"ab", "cd"}}, {0, 0xffff});
  const std::size_t extra = get<std::uint64_t>(bytes, get<std::uint64_t>(bytes, end_of(bytes) - 20 + 8) + 48) + 46 + 2;
  ASSERT_EQ(get<std::uint16_t>(bytes, extra), 1) << "the zip64 field";
  put(bytes, extra + 2, std::uint16_t{12});
  EXPECT_THAT(failure(bytes), HasSubstr("zip64 field is too short"));
  put(bytes, extra + 2, std::uint16_t{60000});
  EXPECT_THAT(failure(bytes), HasSubstr("extra field runs past its end"));
}

TEST(Zip, AnArchiveCutShortAnywhereIsAnError) {
  for (const ZipLimits limits : {ZipLimits{}, ZipLimits{0, 0}}) {
    const Bytes good = zip_of(kRecords, limits);
    for (std::size_t size = 0; size < good.size(); ++size) {
      const Bytes bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_FALSE(ZipReader::open(bytes).ok()) << "cut to " << size << " of " << good.size();
    }
  }
}

TEST(Zip, AFlippedBitIsAnErrorOrChangesNothingThatIsHandedOut) {
  for (const ZipLimits limits : {ZipLimits{}, ZipLimits{0, 0}}) {
    Bytes bytes = zip_of(kRecords, limits);
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
      EXPECT_TRUE(nothing_but_originals(bytes)) << "bit " << bit;
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    }
  }
}

TEST(Zip, DamagedContentsAreNeverHandedOut) {
  Bytes bytes = zip_of({{"a", "contents"}});
  const std::size_t at = ZipReader::open(bytes).value().record("a").value().data() - bytes.data();
  bytes[at] ^= std::byte{1};
  EXPECT_THAT(ZipReader::open(bytes).value().record("a").status().message(), HasSubstr("checksum differs"));
}

TEST(Zip, SizesAndOffsetsThatLieAreErrors) {
  const Bytes good = zip_of(kRecords);
  const std::size_t line = directory_of(good);
  for (const std::uint32_t lie : {0x7fffffffU, 0xfffffffeU, static_cast<std::uint32_t>(good.size())}) {
    Bytes bytes = good;
    put(bytes, line + 20, lie);
    put(bytes, line + 24, lie);
    EXPECT_THAT(failure(bytes), HasSubstr("record model/data of"));
    bytes = good;
    put(bytes, line + 42, lie);
    EXPECT_THAT(failure(bytes), HasSubstr("not where the directory says"));
    bytes = good;
    put(bytes, end_of(good) + 16, lie);
    EXPECT_NE(failure(bytes), "opened");
    bytes = good;
    put(bytes, end_of(good) + 12, lie);
    EXPECT_THAT(failure(bytes), HasSubstr("directory lies outside"));
  }
}

TEST(Zip, ACountAboveWhatIsThereIsAnErrorWhateverItClaims) {
  Bytes bytes = zip_of(kRecords);
  put(bytes, end_of(bytes) + 10, std::uint16_t{4});
  EXPECT_THAT(failure(bytes), HasSubstr("directory is damaged"));
  put(bytes, end_of(bytes) + 10, std::uint16_t{0xffff});
  EXPECT_THAT(failure(bytes), HasSubstr("directory is damaged"));
}

TEST(Zip, ANameThatIsThereTwiceIsAnError) {
  EXPECT_EQ(failure(zip_of({{"a", "1"}, {"b", "2"}, {"a", "3"}})), "record a is there twice");
}

TEST(Zip, CompressedAndEncryptedRecordsAreRefusedByName) {
  Bytes bytes = zip_of(kRecords);
  put(bytes, directory_of(bytes) + 10, std::uint16_t{8});
  EXPECT_THAT(failure(bytes), HasSubstr("record model/data is compressed (method 8)"));
  EXPECT_EQ(ZipReader::open(bytes).status().code(), Code::kUnsupported);
  bytes = zip_of(kRecords);
  put(bytes, directory_of(bytes) + 8, std::uint16_t{1});
  EXPECT_THAT(failure(bytes), HasSubstr("record model/data is encrypted"));
}

TEST(Zip, RecordsThatOverlapAreRefusedSoThatASmallFileCannotClaimMuchMemory) {
  Bytes bytes = zip_of({{"a", "1234"}, {"b", "1234"}});
  const std::size_t second_line = directory_of(bytes) + 46 + 1;
  put(bytes, second_line + 42, get<std::uint32_t>(bytes, directory_of(bytes) + 42));
  EXPECT_THAT(failure(bytes), HasSubstr("overlap"));
}

TEST(Zip, ACommentBehindTheArchiveIsPassedOver) {
  Bytes bytes = zip_of(kRecords);
  put(bytes, end_of(bytes) + 20, std::uint16_t{300});
  bytes.resize(bytes.size() + 300);
  EXPECT_EQ(failure(bytes), "opened");
}

}  // namespace
}  // namespace ravnest::archive
