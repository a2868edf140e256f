#include "ravnest/data/formats.h"
#include "ravnest/data/gunzip.h"

namespace ravnest::data {
namespace {

constexpr std::size_t kImageBytes = std::size_t{3} * 32 * 32;
constexpr std::size_t kRecordBytes = 1 + kImageBytes;  // the label comes first
constexpr std::uint8_t kClasses = 10;

Status check(ByteSpan file, std::string_view name) {
  if (is_gzip(file))
    return unsupported(name, " is a compressed archive; unpack it and name its data_batch_1.bin and so on");
  if (file.empty() || file.size() % kRecordBytes != 0)
    return corrupt(name, ": ", file.size(), " bytes are not a whole number of CIFAR-10 records of ", kRecordBytes);
  for (std::size_t at = 0; at < file.size(); at += kRecordBytes) {
    if (const auto label = static_cast<std::uint8_t>(file[at]); label >= kClasses)
      return corrupt(name, ": record ", at / kRecordBytes, " at byte ", at, " has the label ", int{label},
                     ", CIFAR-10 has 0 to 9");
  }
  return {};
}

}  // namespace

Result<Samples> decode_cifar(const std::vector<Slice>& files, const std::vector<std::string>& names) {
  std::size_t records = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (Status status = check(files[i].bytes, names[i]); !status.ok()) return status;
    records += files[i].size() / kRecordBytes;
  }
  std::vector<std::byte> images;
  images.reserve(records * kImageBytes);
  ByteWriter labels;
  for (const Slice& file : files) {
    for (std::size_t at = 0; at < file.size(); at += kRecordBytes) {
      labels.u64(static_cast<std::uint64_t>(file.bytes[at]));
      const ByteSpan image = file.bytes.subspan(at + 1, kImageBytes);
      images.insert(images.end(), image.begin(), image.end());
    }
  }
  const auto count = static_cast<std::int64_t>(records);
  return Samples{{DType::kUInt8, {count, 3, 32, 32}, slice_of(std::move(images))},
                 {DType::kInt64, {count}, slice_of(labels.take())}};
}

Result<Samples> read_cifar(const std::vector<std::filesystem::path>& paths) {
  std::vector<Slice> files;
  std::vector<std::string> names;
  for (const std::filesystem::path& path : paths) {
    Result<Slice> file = archive::map_file(path);
    if (!file.ok()) return file.status();
    files.push_back(std::move(file).value());
    names.push_back(path.string());
  }
  return decode_cifar(files, names);
}

}  // namespace ravnest::data
