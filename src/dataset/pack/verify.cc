#include "dataset/pack/verify.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "base/mutex.h"
#include "base/work_together.h"
#include "dataset/index/derived_file.h"
#include "dataset/index/index_store.h"
#include "dataset/pack/verify_shard.h"
#include "dataset/shards/dataset_manifest.h"
#include "store/local_store.h"

namespace stoker {
namespace {

/// Returns the index, if it has these shards. Times and sizes need not match: a damaged shard is
/// compared with the index of the original. `corrupt` if the index itself is damaged.
Result<std::optional<Index>> find_index(const ShardSource& source, const std::string& path) {
  Result<Index> index = Index::open(path);
  if (index.status().code() == Code::corrupt) return index.status();
  if (!index.ok()) return std::optional<Index>();
  STOKER_TRY(index->verify());
  if (index->format() != source.format()) return std::optional<Index>();
  const bool same =
      std::equal(index->shards().begin(), index->shards().end(), source.shards().begin(),
                 source.shards().end(),
                 [](const IndexedShard& was, const ShardFile& is) { return was.name == is.name; });
  return same ? std::optional<Index>(*std::move(index)) : std::optional<Index>();
}

/// A file to verify: a shard, or a file that is only in the manifest.
struct Item {
  std::string path;
  const ManifestFile* expected = nullptr;
  std::optional<std::size_t> shard = {};
};

class Verification {
 public:
  Verification(std::string directory, const VerifyOptions& options,
               std::shared_ptr<ObjectStore> store)
      : directory_(std::move(directory)),
        options_(options),
        store_(store ? std::move(store) : local_store()) {
    counter_.stop = options.stop;
  }

  Result<VerifyReport> run() {
    STOKER_TRY(look_around());
    const unsigned wanted = options_.thread_count != 0
                                ? options_.thread_count
                                : std::max(1U, std::thread::hardware_concurrency());
    work_together(std::min<std::size_t>(wanted, items_.size()), [this] { work(); });
    MutexLock lock(mutex_);
    STOKER_TRY(failure_);
    for (VerifyProblem& problem : report_.problems)
      if (!store_->is_local() && !problem.path.starts_with('/'))  // else it is that of an index
        problem.path = store_->uri_of(problem.path);
    std::sort(report_.problems.begin(), report_.problems.end(),
              [](const VerifyProblem& a, const VerifyProblem& b) {
                return std::tie(a.path, a.offset_bytes) < std::tie(b.path, b.offset_bytes);
              });
    return std::move(report_);
  }

 private:
  /// Finds manifest, shards and index, and lists the files to verify. No thread runs yet.
  Status look_around() {
    MutexLock lock(mutex_);
    const Result<ObjectStore::Entry> entry = store_->look(directory_);
    if (entry.status().os_error() != 0 && store_->is_local())
      return Status::from_errno(entry.status().os_error(), "open", directory_);
    STOKER_TRY(entry.status());
    Result<Manifest> manifest = read_manifest(directory_, *store_);
    if (manifest.ok())
      manifest_ = *std::move(manifest);
    else if (manifest.status().code() != Code::not_found &&
             entry->kind == ObjectStore::Kind::folder)
      add_problem(internal::key_in(directory_, kManifestName), manifest.status());
    const Status finished = check_pack_finished(directory_, *store_);
    if (!finished.ok()) add_problem(directory_, finished);
    const ShardSourceOptions source_options{.format = options_.format,
                                            .dtype = options_.dtype,
                                            // a missing shard must not hide the others
                                            .check_files = false,
                                            .store = store_};
    Result<std::unique_ptr<ShardSource>> source = open_shards({&directory_, 1}, source_options);
    if (source.ok())
      source_ = *std::move(source);
    else if (!finished.ok())
      return {};  // the files that identify the format may be missing
    else if (manifest_ || is_damage(source.status()))
      add_problem(directory_, source.status());
    else if (report_.problems.empty())  // else the cause is a damaged manifest
      return source.status();
    if (source_) take_index();
    report_.has_manifest = manifest_.has_value();
    report_.has_checksums = index_ && index_->has_checksums();
    list_items();
    return {};
  }

  /// Takes the first undamaged index of those in the dataset's directory and in the cache.
  void take_index() STOKER_REQUIRES(mutex_) {
    for (const DerivedPlace& place : derived_places(*source_, options_.cache_directory)) {
      const std::string path = place.root + "/" + place.name + "/" + index_name(*source_);
      Result<std::optional<Index>> index = find_index(*source_, path);
      if (!index.ok())
        add_problem(path, index.status());
      else if (!index_)
        index_ = *std::move(index);
    }
  }

  /// Whether the failure means a damaged dataset, and not that there is none.
  bool is_damage(const Status& status) const {
    return status.code() == Code::corrupt ||
           (status.code() == Code::not_found &&
            store_->look(internal::key_in(directory_, "index.json")).ok());
  }

  void add_problem(const std::string& path, const Status& status) STOKER_REQUIRES(mutex_) {
    std::string_view message = status.message();
    if (message.starts_with(path + ": ")) message.remove_prefix(path.size() + 2);
    report_.problems.push_back({.path = path, .message = std::string(message)});
  }

  void list_items() STOKER_REQUIRES(mutex_) {
    std::map<std::string_view, const ManifestFile*> expected;
    if (manifest_) {
      for (const ManifestShard& shard : manifest_->shards) expected[shard.file.name] = &shard.file;
      for (const ManifestFile& file : manifest_->files) expected[file.name] = &file;
    }
    for (std::size_t i = 0; source_ && i < source_->shards().size(); ++i) {
      const ShardFile& shard = source_->shards()[i];
      const auto entry = expected.find(shard.name);
      Item item{.path = shard.path, .shard = i};
      if (entry != expected.end()) {
        item.expected = entry->second;
        expected.erase(entry);
      } else if (manifest_) {
        report_.problems.push_back(
            {.path = shard.path, .message = "a shard that is not in the manifest"});
      }
      report_.size_bytes += shard.size_bytes;
      items_.push_back(std::move(item));
    }
    report_.shard_count = items_.size();
    for (const auto& [name, file] : expected)
      items_.push_back({.path = internal::key_in(directory_, name), .expected = file});
    for (const Item& item : items_) {
      if (item.expected != nullptr) total_bytes_ += item.expected->size_bytes;
      if (item.shard) total_bytes_ += source_->shards()[*item.shard].size_bytes;
    }
  }

  void work() {
    const Status status = verify_until_done();
    MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = status;
  }

  Status verify_until_done() {
    for (;;) {
      // Relaxed: only the number is shared; results are merged under the lock.
      const std::size_t next = next_.fetch_add(1, std::memory_order_relaxed);
      if (next >= items_.size()) return {};
      const Item& item = items_[next];
      internal::ShardVerdict verdict;
      if (item.expected != nullptr)
        STOKER_TRY(
            internal::verify_file(*store_, item.path, *item.expected, counter_, verdict.problems)
                .status());
      if (item.shard)
        STOKER_TRY(internal::verify_samples(*source_, *item.shard, index_ ? &*index_ : nullptr,
                                            counter_, verdict));
      MutexLock lock(mutex_);
      report_.sample_count += verdict.sample_count;
      std::move(verdict.problems.begin(), verdict.problems.end(),
                std::back_inserter(report_.problems));
      ++items_done_;
      if (options_.progress)
        options_.progress({.bytes_done = counter_.bytes.load(std::memory_order_relaxed),
                           .size_bytes = total_bytes_,
                           .shards_done = items_done_,
                           .shard_count = items_.size()});
    }
  }

  const std::string directory_;
  const VerifyOptions& options_;
  const std::shared_ptr<ObjectStore> store_;
  std::optional<Manifest> manifest_;
  std::unique_ptr<ShardSource> source_;
  std::optional<Index> index_;
  std::vector<Item> items_;
  std::uint64_t total_bytes_ = 0;
  internal::VerifyCounter counter_;
  std::atomic<std::size_t> next_{0};
  Mutex mutex_;
  Status failure_ STOKER_GUARDED_BY(mutex_);
  VerifyReport report_ STOKER_GUARDED_BY(mutex_);
  std::uint64_t items_done_ STOKER_GUARDED_BY(mutex_) = 0;
};

}  // namespace

Result<VerifyReport> verify_shards(const std::string& directory, const VerifyOptions& options,
                                   std::shared_ptr<ObjectStore> store) {
  return Verification(directory, options, std::move(store)).run();
}

}  // namespace stoker
