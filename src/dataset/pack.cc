#include "dataset/pack.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "dataset/pack_merge.h"
#include "dataset/pack_part.h"
#include "dataset/pack_shard.h"
#include "dataset/pack_writer.h"
#include "dataset/shard_output.h"
#include "dataset/shard_source.h"
#include "io/publish.h"

namespace stoker {
namespace {

/// Files that one shard's thread has open at a time, besides its own.
constexpr unsigned kReadersPerShard = 4;

/// With its parents, each made durable.
Status make_directories(FileOps& ops, const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return {};
    return Status(Code::already_exists, path + ": not a directory");
  }
  const std::string parent = parent_of(path);
  if (parent != path) STOKER_TRY(make_directories(ops, parent));
  if (Status status = ops.mkdir(path); !status.ok() && status.code() != Code::already_exists)
    return status;
  return ops.fsync_dir(parent);
}

/// Removes what killed runs left under private names: all of it if nobody else may be at work, else
/// that of our own shards.
Status remove_staged(FileOps& ops, const std::string& directory,
                     const std::set<std::string, std::less<>>* own) {
  STOKER_ASSIGN(const std::vector<std::string> names, ops.list(directory));
  for (const std::string& name : names) {
    const std::string_view target = final_name_of_staged(name);
    if (target.empty() || (own != nullptr && !own->contains(target))) continue;
    STOKER_TRY(ops.unlink(directory + "/" + name));
  }
  return {};
}

/// The job on disk is ours, or there is none and the directory is empty.
Status claim_directory(FileOps& ops, const std::string& directory, const PackJob& job) {
  const Result<PackJob> found = read_pack_job(directory);
  if (found.ok() && *found == job) return {};
  if (found.ok())
    return Status(Code::already_exists,
                  directory +
                      ": belongs to another pack job (other source files or options); use "
                      "the same again, or another directory");
  if (found.status().code() != Code::not_found) return found.status();
  STOKER_ASSIGN(const std::vector<std::string> names, ops.list(directory));
  for (const std::string& name : names)
    if (!name.starts_with('.'))
      return Status(Code::already_exists,
                    directory + ": not empty (" + name + "); pack into a new directory");
  STOKER_TRY(publish_pack_job(ops, directory, job));
  STOKER_ASSIGN(const PackJob published, read_pack_job(directory));
  if (published == job) return {};
  return Status(Code::already_exists,
                directory + ": another task has begun with other source files or options");
}

Result<PackWriterOptions> writer_options(const SampleSource& source,
                                         const PackPlanOptions& options) {
  PackWriterOptions writer{.format = options.format, .mds_size_limit_bytes = options.shard_bytes};
  if (options.format == "mds") {
    STOKER_ASSIGN(writer.mds_columns, source.mds_columns());
  }
  if (options.format == "tokens") {
    const std::optional<Dtype> dtype = source.token_dtype();
    if (!dtype)
      return Status(Code::invalid_argument,
                    "--format tokens is for arrays of tokens (.npy, .bin, Megatron); these are "
                    "samples with fields: use tar, mds or tfrecord");
    writer.token_dtype = *dtype;
  }
  return writer;
}

/// Shards dealt to threads one by one. The first failure stops the others.
class ParallelPack {
 public:
  ParallelPack(FileOps& ops, const SampleSource& source, std::string directory,
               const PackPlan& plan, PackWriterOptions writer, const PackOptions& options)
      : ops_(ops),
        source_(source),
        directory_(std::move(directory)),
        plan_(plan),
        writer_(std::move(writer)),
        options_(options) {
    for (std::uint64_t i = options.task; i < plan.job.shard_count; i += options.task_count) {
      shards_.push_back(i);
      sample_count_ += plan.samples_of(i).size();
    }
  }

  Result<PackReport> run() {
    const unsigned wanted = options_.thread_count != 0
                                ? options_.thread_count
                                : std::max(1U, std::thread::hardware_concurrency());
    const std::size_t count = std::min<std::size_t>(wanted, shards_.size());
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < count; ++i) threads.emplace_back([this] { work(); });
    }
    report(true);
    MutexLock lock(mutex_);
    STOKER_TRY(failure_);
    return PackReport{.format = plan_.job.format,
                      .shard_count = shards_.size(),
                      .sample_count = sample_count_,
                      .size_bytes = size_bytes_,
                      .shards_found = shards_found_,
                      .is_complete = false};
  }

 private:
  void work() {
    const Status status = pack_until_done();
    if (status.ok()) return;
    failed_.request_stop();
    MutexLock lock(mutex_);
    // A shard that was stopped because of another's failure is not the one to report.
    if (failure_.ok() || failure_.code() == Code::cancelled) failure_ = status;
  }

  Status pack_until_done() {
    const std::stop_callback forward(options_.stop, [this] { failed_.request_stop(); });
    for (;;) {
      // relaxed: the number is all that is shared.
      const std::size_t next = next_.fetch_add(1, std::memory_order_relaxed);
      if (next >= shards_.size()) return {};
      if (failed_.stop_requested()) return Status(Code::cancelled, "stopped while packing");
      STOKER_TRY(pack_one(shards_[next]));
    }
  }

  Status pack_one(std::uint64_t shard) {
    const std::string name = plan_.job.shard_name(shard);
    const std::span<const std::uint64_t> samples = plan_.samples_of(shard);
    STOKER_ASSIGN(const bool is_finished,
                  is_shard_finished(ops_, directory_, name, plan_.job.hash));
    if (!is_finished) {
      STOKER_TRY(pack_shard(ops_, source_, writer_,
                            {.directory = directory_,
                             .name = name,
                             .plan_hash = plan_.job.hash,
                             .samples = samples,
                             .reader_count = source_.is_scattered() ? kReadersPerShard : 0,
                             .on_sample = [this](std::uint64_t size) { count_sample(size); },
                             .stop = failed_.get_token()}));
    }
    STOKER_ASSIGN(const PackPart part, read_pack_part(directory_, name));
    {
      MutexLock lock(mutex_);
      size_bytes_ += part.shard.file.size_bytes;
      shards_found_ += is_finished ? 1 : 0;
      progress_.shards_done += 1;
      if (is_finished) progress_.samples_found += samples.size();
    }
    report(true);
    return {};
  }

  void count_sample(std::uint64_t size_bytes) {
    // relaxed: counters for people to look at.
    samples_.fetch_add(1, std::memory_order_relaxed);
    bytes_.fetch_add(size_bytes, std::memory_order_relaxed);
    report(false);
  }

  /// Calls back under the lock, which is what makes it one call at a time; the callback prints.
  void report(bool at_once) {
    if (!options_.progress) return;
    constexpr std::int64_t kEveryNs = 100'000'000;
    const std::int64_t now_ns = std::chrono::steady_clock::now().time_since_epoch().count();
    std::int64_t last_ns = reported_ns_.load(std::memory_order_relaxed);
    if (!at_once && now_ns - last_ns < kEveryNs) return;
    if (!reported_ns_.compare_exchange_strong(last_ns, now_ns, std::memory_order_relaxed) &&
        !at_once)
      return;
    MutexLock lock(mutex_);
    progress_.samples_done = samples_.load(std::memory_order_relaxed) + progress_.samples_found;
    progress_.bytes_done = bytes_.load(std::memory_order_relaxed);
    progress_.sample_count = sample_count_;
    progress_.shard_count = shards_.size();
    options_.progress(progress_);
  }

  FileOps& ops_;
  const SampleSource& source_;
  const std::string directory_;
  const PackPlan& plan_;
  const PackWriterOptions writer_;
  const PackOptions& options_;
  std::vector<std::uint64_t> shards_;
  std::uint64_t sample_count_ = 0;
  std::stop_source failed_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint64_t> samples_{0};
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::int64_t> reported_ns_{0};
  Mutex mutex_;
  Status failure_ STOKER_GUARDED_BY(mutex_);
  PackProgress progress_ STOKER_GUARDED_BY(mutex_);
  std::uint64_t size_bytes_ STOKER_GUARDED_BY(mutex_) = 0;
  std::uint64_t shards_found_ STOKER_GUARDED_BY(mutex_) = 0;
};

/// Under the lock, in a directory that is ours: what killed runs have left goes, the files beside
/// the shards come.
Status prepare(FileOps& ops, const SampleSource& source, const std::string& directory,
               const PackPlan& plan, const PackOptions& options) {
  if (options.task_count == 1) {
    STOKER_TRY(remove_staged(ops, directory, nullptr));
    STOKER_TRY(remove_staged(ops, pack_parts_directory(directory), nullptr));
  } else {
    std::set<std::string, std::less<>> own;
    for (std::uint64_t i = options.task; i < plan.job.shard_count; i += options.task_count)
      for (const std::string& name : {plan.job.shard_name(i), plan.job.sidecar_name(i)})
        own.insert(name);
    STOKER_TRY(remove_staged(ops, directory, &own));
  }
  for (const auto& [name, text] : source.extra_files()) {
    const std::string path = directory + "/" + name;
    const Result<std::string> found = internal::read_whole(path, text.size());
    if (found.ok() && *found == text) continue;  // another task was here
    STOKER_TRY(publish_file(ops, path, std::as_bytes(std::span(text))));
  }
  return {};
}

}  // namespace

Result<PackReport> pack(FileOps& ops, const SampleSource& source, const std::string& directory,
                        const PackOptions& options) {
  if (options.task_count == 0 || options.task >= options.task_count)
    return Status(Code::invalid_argument, "--task I/N: I counts from 0 to N - 1");
  if (source.sample_count() == 0) return Status(Code::invalid_argument, "no samples to pack");
  STOKER_ASSIGN(const PackPlan plan, make_pack_plan(source, options.plan));
  STOKER_ASSIGN(PackWriterOptions writer, writer_options(source, options.plan));
  STOKER_TRY(make_directories(ops, directory + "/.stoker"));
  const bool is_alone = options.task_count == 1;
  STOKER_ASSIGN(
      const UniqueFd lock,
      internal::lock_pack(ops, directory, is_alone ? LockMode::exclusive : LockMode::shared));
  // Before anything is staged: in a container a process has the number of the one that was killed.
  if (is_alone) STOKER_TRY(remove_staged(ops, directory + "/.stoker", nullptr));
  STOKER_TRY(claim_directory(ops, directory, plan.job));
  Result<PackReport> finished = internal::find_finished(ops, directory, plan.job);
  if (finished.ok() || finished.status().code() != Code::not_found) return finished;
  STOKER_TRY(make_directories(ops, pack_parts_directory(directory)));
  STOKER_TRY(prepare(ops, source, directory, plan, options));
  STOKER_ASSIGN(PackReport report,
                ParallelPack(ops, source, directory, plan, std::move(writer), options).run());
  if (!is_alone) return report;
  STOKER_ASSIGN(PackReport merged, internal::merge_locked(ops, directory, plan.job));
  merged.shards_found = report.shards_found;
  return merged;
}

}  // namespace stoker
