#include "dataset/index/index_store.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <thread>

#include "base/mutex.h"
#include "base/work_together.h"
#include "dataset/index/derived_file.h"
#include "dataset/shards/shard_scan.h"
#include "io/engine/arena.h"

namespace stoker {
namespace {

struct ScannedShard {
  std::vector<ByteRange> records = {};
  std::vector<std::uint32_t> checksums = {};
  std::uint64_t plain_size_bytes = 0;
};

/// Collects the records of a shard in memory.
class Collect final : public RecordSink {
 public:
  Status add(ByteRange record, std::string_view /*key*/) override {
    records.push_back(record);
    return {};
  }
  std::vector<ByteRange> records;
};

/// Adds the shard's path, unless the message begins with the path of a sidecar.
Status with_path(const Status& status, const ShardSource& source, const std::string& path) {
  return status.message().starts_with(source.directory() + "/") ? status
                                                                : status.with_context(path);
}

Result<ScannedShard> scan_compressed(const ShardSource& source, std::size_t shard,
                                     const IndexOptions& options) {
  const ShardFile& file = source.shards()[shard];
  STOKER_ASSIGN(const std::vector<std::byte> packed, internal::read_packed(source.store(), file));
  Result<std::vector<std::byte>> plain = source.inflate(shard, packed);
  if (!plain.ok()) return plain.status().with_context(file.path);
  const Result<std::unique_ptr<ShardScanner>> made = source.scan(shard, plain->size());
  if (!made.ok()) return with_path(made.status(), source, file.path);
  ShardScanner& scanner = **made;
  Collect found;
  for (ByteRange wanted = scanner.wants(); wanted.size_bytes > 0; wanted = scanner.wants())
    STOKER_TRY(scanner.feed(std::span(*plain).subspan(wanted.offset_bytes), found)
                   .with_context(file.path));
  ScannedShard scanned{.records = std::move(found.records), .plain_size_bytes = plain->size()};
  for (const ByteRange& record : scanned.records) {
    if (!options.checksums) break;
    scanned.checksums.push_back(
        crc32c(std::span(*plain).subspan(record.offset_bytes, record.size_bytes)));
  }
  return scanned;
}

Result<ScannedShard> scan_one(const ShardSource& source, std::size_t shard,
                              std::span<std::byte> memory, const IndexOptions& options) {
  if (source.is_compressed(shard)) return scan_compressed(source, shard, options);
  const ShardFile& info = source.shards()[shard];
  STOKER_ASSIGN(const std::unique_ptr<const Object> object,
                internal::open_shard(source.store(), info));
  const Result<std::unique_ptr<ShardScanner>> scanner = source.scan(shard, info.size_bytes);
  if (!scanner.ok()) return with_path(scanner.status(), source, info.path);
  ScannedShard scanned{.plain_size_bytes = info.size_bytes};
  STOKER_ASSIGN(scanned.records, scan_shard(*object, **scanner, memory, options.stop));
  if (options.checksums) {
    // Checksums of bytes that are already damaged would hide the damage.
    STOKER_TRY(internal::check_digests(source, shard));
    STOKER_ASSIGN(scanned.checksums,
                  checksum_records(*object, scanned.records, memory, options.stop));
  }
  // Checked last, so that a shard rewritten during the scan is not indexed as a mix.
  STOKER_ASSIGN(const ObjectInfo now, object->info_now());
  STOKER_TRY(internal::check_unchanged(now, info));
  return scanned;
}

/// If a shard cannot be scanned because it has another format, returns an error that says so.
Status explain(const Status& status, const ShardSource& source, const std::string& path) {
  const bool by_content = source.shard_format().make_reader != nullptr;
  if (status.code() != Code::corrupt || !by_content) return status;
  const Result<const ShardFormat*> format = internal::recognise_shard(source.store(), path);
  if (!format.ok() && format.status().code() == Code::unsupported) return format.status();
  if (!format.ok() || *format == &source.shard_format()) return status;
  return Status(Code::invalid_argument, path + ": its format is " + std::string((*format)->name) +
                                            ", the others are " + std::string(source.format()) +
                                            "; name shards of one format");
}

/// Scans shards in several threads, which take them one by one. The first failure stops the others.
class ParallelScan {
 public:
  ParallelScan(const ShardSource& source, const IndexOptions& options)
      : source_(source), options_(options), scanned_(source.shards().size()) {}

  Result<std::vector<ScannedShard>> run() {
    const unsigned wanted = options_.thread_count != 0
                                ? options_.thread_count
                                : 2 * std::max(1U, std::thread::hardware_concurrency());
    work_together(std::min<std::size_t>(wanted, source_.shards().size()), [this] { work(); });
    MutexLock lock(mutex_);
    if (!failure_.ok()) return failure_;
    return std::move(scanned_);
  }

 private:
  void work() {
    const Status status = scan_until_done();
    MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = status;
  }

  Status scan_until_done() {
    STOKER_ASSIGN(const MappedArena memory, MappedArena::map(kScanBytes, false, true));
    for (;;) {
      // Relaxed: only the number is shared; results are read after the threads are joined.
      const std::size_t shard = next_.fetch_add(1, std::memory_order_relaxed);
      if (shard >= source_.shards().size()) return {};
      if (options_.stop.stop_requested()) return Status(Code::cancelled, "stopped while indexing");
      {
        MutexLock lock(mutex_);
        if (!failure_.ok()) return {};
      }
      Result<ScannedShard> result = scan_one(source_, shard, memory.bytes(), options_);
      if (!result.ok()) return explain(result.status(), source_, source_.shards()[shard].path);
      ScannedShard scanned = *std::move(result);
      MutexLock lock(mutex_);
      progress_.shards_done += 1;
      progress_.shard_count = source_.shards().size();
      progress_.samples_found += scanned.records.size();
      scanned_[shard] = std::move(scanned);
      if (options_.progress) options_.progress(progress_);
    }
  }

  const ShardSource& source_;
  const IndexOptions& options_;
  std::atomic<std::size_t> next_{0};
  Mutex mutex_;
  Status failure_ STOKER_GUARDED_BY(mutex_);
  IndexProgress progress_ STOKER_GUARDED_BY(mutex_);
  std::vector<ScannedShard> scanned_ STOKER_GUARDED_BY(mutex_);
};

}  // namespace

std::string index_name(const ShardSource& source) {
  Xxh3Stream names;
  for (const ShardFile& shard : source.shards()) {
    names.update(std::as_bytes(std::span(shard.name)));
    names.update(std::array{std::byte{0}});
  }
  for (const ShardFile& sidecar : source.sidecars()) {
    const std::array<std::uint64_t, 2> state = {sidecar.size_bytes,
                                                static_cast<std::uint64_t>(sidecar.mtime_ns)};
    names.update(std::as_bytes(std::span(sidecar.name)));
    names.update(std::as_bytes(std::span(state)));
  }
  return "index-" + names.digest().hex();
}

bool fits(const Index& index, const ShardSource& source) {
  const bool is_local = source.store().is_local();
  return index.format() == source.format() &&
         std::equal(
             index.shards().begin(), index.shards().end(), source.shards().begin(),
             source.shards().end(), [&](const IndexedShard& was, const ShardFile& is) {
               const bool is_same = was.mtime_ns == is.mtime_ns;
               return was.name == is.name && was.size_bytes == is.size_bytes &&
                      (is_local ? is_same || index.has_checksums() : is_same && is.mtime_ns != 0);
             });
}

Result<std::vector<std::byte>> build_index(const ShardSource& source, const IndexOptions& options) {
  STOKER_ASSIGN(const std::vector<ScannedShard> scanned, ParallelScan(source, options).run());
  IndexWriter writer(std::string(source.format()), options.checksums);
  for (std::size_t i = 0; i < scanned.size(); ++i) {
    const ShardFile& shard = source.shards()[i];
    writer.add_shard(shard.name, shard.size_bytes, scanned[i].plain_size_bytes, shard.mtime_ns);
    for (std::size_t k = 0; k < scanned[i].records.size(); ++k)
      STOKER_TRY(
          writer.add_sample(scanned[i].records[k], options.checksums ? scanned[i].checksums[k] : 0)
              .with_context(shard.path));
  }
  return writer.finish();
}

Result<IndexFile> open_index_file(const ShardSource& source, const IndexOptions& options) {
  std::optional<Index> taken;
  Status damage;
  IndexOptions build = options;
  const auto open_checked = [&](const PathAt& path) -> Result<Index> {
    STOKER_ASSIGN(Index index, Index::open(path));
    if (options.check_all) STOKER_TRY(index.verify().with_context(path.text()));
    return index;
  };
  const auto take = [&](const PathAt& path) -> Status {
    Result<Index> opened = open_checked(path);
    if (opened.status().code() == Code::corrupt) {
      damage = opened.status();
      if (Index::claims_checksums(path)) build.checksums = true;
    }
    STOKER_ASSIGN(Index index, std::move(opened));
    if (!fits(index, source))
      return Status(Code::not_found, path.text() + ": it is for other shards");
    if (options.checksums && !index.has_checksums())
      return Status(Code::not_found, path.text() + ": it has no checksums");
    taken.emplace(std::move(index));
    return {};
  };
  STOKER_ASSIGN(DerivedFile file,
                open_derived_file({.places = derived_places(source, options.cache_directory),
                                   .name = index_name(source),
                                   .what = "the index",
                                   .rebuild = options.rebuild,
                                   .in_memory = options.in_memory,
                                   .stop = options.stop,
                                   .ops = options.ops},
                                  take, [&] { return build_index(source, build); }));
  if (file.path.empty()) {
    STOKER_ASSIGN(Index index, Index::adopt(std::move(file.bytes)));
    return IndexFile{.index = std::move(index),
                     .path = {},
                     .is_new = true,
                     .refused = std::move(file.refused),
                     .damage = std::move(damage)};
  }
  if (options.check_all && !file.is_new && !damage.ok() && !options.rebuild) {
    // The newer file is damaged and an older one is not. Readers, which verify only what they use,
    // would take the damaged one, so it is replaced.
    build.rebuild = true;
    STOKER_ASSIGN(IndexFile made, open_index_file(source, build));
    made.damage = std::move(damage);
    return made;
  }
  return IndexFile{.index = *std::move(taken),
                   .path = std::move(file.path),
                   .is_new = file.is_new,
                   .damage = file.is_new ? std::move(damage) : Status()};
}

Result<Index> open_index(const ShardSource& source, const IndexOptions& options) {
  STOKER_ASSIGN(IndexFile file, open_index_file(source, options));
  return std::move(file.index);
}

}  // namespace stoker
