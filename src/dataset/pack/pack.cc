#include "dataset/pack/pack.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/clock.h"
#include "base/exception_status.h"
#include "base/mutex.h"
#include "base/work_together.h"
#include "dataset/pack/pack_session.h"
#include "dataset/pack/pack_shard.h"

namespace stoker {
namespace {

/// Threads that read ahead for one shard, if samples are scattered over files.
constexpr unsigned kReadersPerShard = 4;

/// Packs shards in several threads, which take them one by one. The first failure stops the others.
class ParallelPack {
 public:
  ParallelPack(FileOps& ops, const PackInput& input, const PackSession& session,
               const PackOptions& options)
      : ops_(ops), input_(input), session_(session), options_(options) {
    for (const std::uint64_t i : session.shards())
      sample_count_ += session.plan().samples_of(i).size();
  }

  /// Returns how many of the shards were finished before.
  Result<std::uint64_t> run() {
    const unsigned wanted = options_.thread_count != 0
                                ? options_.thread_count
                                : std::max(1U, std::thread::hardware_concurrency());
    const std::size_t count = std::min<std::size_t>(wanted, session_.shards().size());
    work_together(count, [this] { work(); });
    const Status reported = caught([this] {
      report(true);
      return Status();
    });
    MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = reported;
    STOKER_TRY(failure_);
    return shards_found_;
  }

 private:
  /// Calls what may throw: no memory, or a callback of the program.
  template <typename Call>
  static Status caught(const Call& call) noexcept {
    try {
      return call();
    } catch (...) {
      return internal::status_of_exception();
    }
  }

  void work() {
    const Status status = caught([this] { return pack_until_done(); });
    if (status.ok()) return;
    failed_.request_stop();
    MutexLock lock(mutex_);
    // A shard that was stopped because another failed is not the error to report.
    if (failure_.ok() || failure_.code() == Code::cancelled) failure_ = status;
  }

  Status pack_until_done() {
    const std::stop_callback forward(options_.stop, [this] { failed_.request_stop(); });
    for (;;) {
      // Relaxed: only the number is shared.
      const std::size_t next = next_.fetch_add(1, std::memory_order_relaxed);
      if (next >= session_.shards().size()) return {};
      if (failed_.stop_requested()) return Status(Code::cancelled, "stopped while packing");
      STOKER_TRY(pack_one(session_.shards()[next]));
    }
  }

  Status pack_one(std::uint64_t shard) {
    const PackJob& job = session_.plan().job;
    const PathAt& directory = session_.directory();
    const std::string name = job.shard_name(shard);
    const std::span<const std::uint64_t> samples = session_.plan().samples_of(shard);
    STOKER_ASSIGN(const bool is_finished, is_shard_finished(ops_, directory, name, job.hash));
    if (!is_finished) {
      STOKER_TRY(pack_shard(ops_, input_, session_.writer(),
                            {.directory = directory,
                             .name = name,
                             .plan_hash = job.hash,
                             .samples = samples,
                             .reader_count = input_.is_scattered() ? kReadersPerShard : 0,
                             .on_sample = [this](std::uint64_t size) { count_sample(size); },
                             .stop = failed_.get_token()}));
    }
    {
      MutexLock lock(mutex_);
      shards_found_ += is_finished ? 1 : 0;
      progress_.shards_done += 1;
      if (is_finished) progress_.samples_found += samples.size();
    }
    report(true);
    return {};
  }

  void count_sample(std::uint64_t size_bytes) {
    // Relaxed: counters for display only.
    samples_.fetch_add(1, std::memory_order_relaxed);
    bytes_.fetch_add(size_bytes, std::memory_order_relaxed);
    report(false);
  }

  /// Calls the callback under the lock, so that there is one call at a time.
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
    progress_.shard_count = session_.shards().size();
    options_.progress(progress_);
  }

  FileOps& ops_;
  const PackInput& input_;
  const PackSession& session_;
  const PackOptions& options_;
  std::uint64_t sample_count_ = 0;
  std::stop_source failed_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint64_t> samples_{0};
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::int64_t> reported_ns_{0};
  Mutex mutex_;
  Status failure_ STOKER_GUARDED_BY(mutex_);
  PackProgress progress_ STOKER_GUARDED_BY(mutex_);
  std::uint64_t shards_found_ STOKER_GUARDED_BY(mutex_) = 0;
};

}  // namespace

Result<PackReport> pack(FileOps& ops, const PackInput& input, const std::string& directory,
                        const PackOptions& options) {
  STOKER_ASSIGN(const std::unique_ptr<PackSession> session,
                PackSession::open(ops, input, directory, options, TaskShare::every_nth));
  if (session->finished()) return *session->finished();
  const Result<std::uint64_t> found = ParallelPack(ops, input, *session, options).run();
  if (found.ok()) return session->close(*found);
  if (found.status().code() != Code::cancelled) session->withdraw();
  return found.status();
}

}  // namespace stoker
