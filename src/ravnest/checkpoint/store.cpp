#include "ravnest/checkpoint/store.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "ravnest/checkpoint/bucket_store.h"
#include "ravnest/checkpoint/names.h"
#include "ravnest/checkpoint/verify.h"
#include "ravnest/object_store/cache.h"

namespace ravnest::checkpoint {
namespace {

namespace fs = std::filesystem;

class FolderStore final : public Store {
 public:
  FolderStore(fs::path root, StoreOptions options) : Store(std::move(options)), root_(std::move(root)) {}

  std::string name() const override { return root_.string(); }
  Status check_access() override { return {}; }  // begin_run finds out

  Result<Listing> list() override { return list_checkpoints(root_); }
  Result<Checkpoint> find(std::string_view which) override { return find_checkpoint(root_, which); }
  Status check(const Checkpoint& checkpoint, const VerifyOptions& options) override {
    return verified(checkpoint, options);
  }
  Result<Checkpoint> fetch(const Checkpoint& checkpoint, const std::set<std::string>& /*parts*/) override {
    return checkpoint;
  }
  Status remove(const Checkpoint& checkpoint) override { return remove_checkpoint(checkpoint); }

  Status begin_run(const std::string& run) override {
    run_ = run;
    return checkpoint::begin_run(root_, run, options_.holder);
  }
  Status remove_newer(std::uint64_t updates, bool /*leads*/) override {
    return checkpoint::remove_newer(root_, run_, updates);
  }
  fs::path folder(std::uint64_t updates) const override { return checkpoint_folder(root_, updates); }
  Status keep(const Manifest& manifest, const Retention& retention, Status& unpruned) override {
    if (Status written = write_manifest(folder(manifest.updates), manifest); !written.ok()) return written;
    Retention here = retention;
    // Where holders have folders of their own, others may not have this one's manifest yet: until they do, the one
    // before is what all can go on from.
    if (here.keep == 1 &&
        !verified({folder(manifest.updates), manifest}, {.parts = {}, .digests = false, .progress = {}}).ok())
      here.keep = 2;
    unpruned = prune(root_, run_, options_.holder, here);
    return {};
  }

 private:
  const fs::path root_;
  std::string run_;
};

// AWS's own tools take it from there. Nothing where it is no number.
int attempts_of(const object_store::Environment& environment, int otherwise) {
  const std::string written = object_store::variable(environment, "AWS_MAX_ATTEMPTS");
  int attempts = 0;
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), attempts);
  return error == std::errc() && end == written.data() + written.size() && attempts > 0 ? attempts : otherwise;
}

}  // namespace

Status Store::upload_part(std::uint64_t /*updates*/, const std::string& /*file*/) { return {}; }

Status Store::upload_manifest(const Manifest& /*manifest*/, const Retention& /*retention*/, Status& /*unpruned*/) {
  return {};
}

std::string Store::command_to_upload(std::uint64_t /*updates*/) const { return {}; }

Result<std::unique_ptr<Store>> Store::open(const fs::path& where, StoreOptions options) {
  if (!object_store::is_s3_url(where.string()))
    return std::unique_ptr<Store>(std::make_unique<FolderStore>(where, std::move(options)));
  auto name = object_store::parse_s3_url(where.string());
  if (!name.ok()) return name.status();
  const auto cache = object_store::cache_folder(options.environment);
  if (!cache.ok()) return cache.status();
  object_store::StoreOptions connection;
  connection.requests.attempts = attempts_of(options.environment, connection.requests.attempts);
  connection.requests.first_attempts = std::min(connection.requests.attempts, connection.requests.first_attempts);
  auto store = object_store::ObjectStore::open(options.environment, connection);
  if (!store.ok()) return store.status();
  return std::unique_ptr<Store>(
      std::make_unique<BucketStore>(std::move(*store), std::move(*name), *cache, std::move(options)));
}

PlaceAndWhich place_and_which(const fs::path& folder, const std::string& named) {
  if (!object_store::is_s3_url(named)) return {folder, named == "last" ? "newest" : named};
  std::string url = named;
  while (url.ends_with('/')) url.pop_back();
  const std::size_t slash = url.find_last_of('/');
  const std::string last = url.substr(slash + 1);
  const bool is_newest = last == "last" || last == "newest";
  // "s3://last" is a bucket.
  if ((!is_newest && last != "best" && !updates_of(last)) || slash < std::string_view("s3://x").size())
    return {url, "newest"};
  return {url.substr(0, slash), is_newest ? "newest" : last};
}

}  // namespace ravnest::checkpoint
