#include "bench/disk/disk_bench.h"

#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "bench/bench_engine.h"
#include "bench/disk/small_files.h"
#include "bench/disk/sync_latency.h"
#include "bench/disk/workload.h"
#include "bench/scratch.h"
#include "io/engine/buffer_pool.h"
#include "io/files/filesystem.h"
#include "stoker/units.h"

namespace stoker {
namespace {

constexpr std::uint32_t kFillBlockBytes = std::uint32_t{4} << 20;
constexpr std::uint32_t kFillDepth = 8;
constexpr std::uint64_t kWarmBytesMax = std::uint64_t{1} << 30;
constexpr std::uint64_t kSyncBytesMax = std::uint64_t{256} << 20;

std::string describe(const DiskCase& row) {
  const auto with_policy = [&](std::string text) {
    text.append(" ").append(format_bytes(row.block_bytes)).append(", ").append(row.policy.name());
    if (row.depth > 1) text += ", depth " + std::to_string(row.depth);
    if (row.cache != CacheState::not_applicable)
      text.append(", ").append(cache_state_name(row.cache));
    return text;
  };
  switch (row.kind) {
    case CaseKind::seq_write: return with_policy("sequential write");
    case CaseKind::seq_read: return with_policy("sequential read");
    case CaseKind::rand_read: return with_policy("random read");
    case CaseKind::fsync: return with_policy("fsync after");
    case CaseKind::fdatasync: return with_policy("fdatasync after");
    case CaseKind::small_create: return with_policy("create small files of");
    case CaseKind::small_read: return with_policy("read small files of");
  }
  return "";
}

/// Returns how much to read for a warm case without evicting everything else from memory.
std::uint64_t warm_range_bytes(std::uint64_t file_bytes) {
  const auto memory = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::min({file_bytes, kWarmBytesMax, memory / 8 / kFillBlockBytes * kFillBlockBytes});
}

/// The state that the cases share: one engine, one arena, one file to read.
class DiskBench {
 public:
  DiskBench(const DiskBenchOptions& options, FileOps& ops, std::stop_token stop)
      : options_(options), ops_(ops), stop_(std::move(stop)) {}

  Status prepare(const std::vector<DiskCase>& cases, DiskReport& report) {
    std::uint32_t depth = kFillDepth;
    std::size_t budget_bytes = std::size_t{kFillDepth} * kFillBlockBytes;
    for (const DiskCase& row : cases) {
      depth = std::max(depth, row.depth);
      budget_bytes =
          std::max(budget_bytes, BufferPool::size_class_bytes(row.block_bytes) * row.depth);
    }
    STOKER_TRY(make_engine_of(depth, report));
    STOKER_ASSIGN(BufferPool pool, BufferPool::make({.budget_bytes = budget_bytes}));
    pool_.emplace(std::move(pool));
    report.buffer_pages = arena_pages_name(pool_->pages());
    const Status registered = engine_->register_buffers(pool_->memory());
    report.registered_buffers = registered.ok();
    report.registered_buffers_reason = registered.message();
    return {};
  }

  Result<DiskResult> run(const DiskCase& row) {
    DiskResult result{.kind = row.kind,
                      .engine = std::string(
                          row.policy.is_mapped ? "none" : engine_kind_name(engine_->caps().kind)),
                      .policy = row.policy,
                      .block_bytes = row.block_bytes,
                      .depth = std::min(row.depth, engine_->caps().depth_max),
                      .cache = row.cache};
    Result<Measurement> found = measure(row, result);
    if (found.ok()) {
      record(*found, result);
    } else if (found.status().code() == Code::unsupported && !options_.policy) {
      result.skipped = found.status().message();
    } else {
      return found.status();
    }
    return result;
  }

 private:
  Status make_engine_of(std::uint32_t depth, DiskReport& report) {
    STOKER_ASSIGN(BenchEngine made, make_bench_engine(options_.engine, depth));
    engine_ = std::move(made.engine);
    report.engine_reason = std::move(made.reason);
    report.engine = engine_kind_name(engine_->caps().kind);
    return {};
  }

  Result<Measurement> measure(const DiskCase& row, DiskResult& result) {
    switch (row.kind) {
      case CaseKind::seq_write: return measure_write(row);
      case CaseKind::seq_read:
      case CaseKind::rand_read: return measure_read(row, result);
      case CaseKind::fsync: return measure_sync(row, Op::fsync);
      case CaseKind::fdatasync: return measure_sync(row, Op::fdatasync);
      case CaseKind::small_create: return measure_small_create(row);
      case CaseKind::small_read: return measure_small_read(row, result);
    }
    return Status(Code::invalid_argument, "no such case");
  }

  static void record(const Measurement& found, DiskResult& result) {
    const auto count_ns = [](nanoseconds duration) {
      return static_cast<std::uint64_t>(duration.count());
    };
    result.io_path = result.policy.is_mapped ? "mmap" : io_path_name(found.path);
    result.bytes = found.bytes;
    result.count = found.count;
    result.elapsed_ns = count_ns(found.elapsed);
    result.bytes_per_s = found.bytes_per_s();
    result.iops = found.count_per_s();
    result.p50_ns = count_ns(found.latency.quantile(0.50));
    result.p99_ns = count_ns(found.latency.quantile(0.99));
    result.max_ns = count_ns(found.latency.max());
  }

  /// Writes a new file each time, because overwriting is up to a fifth faster. The last file is
  /// kept for reading.
  Result<Measurement> measure_write(const DiskCase& row) {
    data_.reset();  // one file at a time: check_room() allows for no more
    STOKER_ASSIGN(ScratchFile fresh,
                  ScratchFile::create(ops_, options_.path, {.policy = row.policy.cache}));
    data_.emplace(std::move(fresh));
    return run_workload(*engine_, data_->file(), *pool_,
                        {.op = Op::write,
                         .range_bytes = options_.size_bytes,
                         .block_bytes = row.block_bytes,
                         .depth = row.depth,
                         .time_max = options_.time_per_case,
                         .preallocate = true},
                        stop_);
  }

  /// Prepares the file for reads: that of the last write, or a new one, filled up to its size.
  Status prepare_data() {
    if (!data_) {
      STOKER_ASSIGN(ScratchFile fresh, ScratchFile::create(ops_, options_.path, {}));
      data_.emplace(std::move(fresh));
    }
    // Only whole blocks, so that a direct write never starts inside one.
    const std::uint64_t done = data_->file().size_bytes();
    const std::uint64_t size = options_.size_bytes / kFillBlockBytes * kFillBlockBytes;
    if (size < done + kFillBlockBytes) return {};
    return run_workload(*engine_, data_->file(), *pool_,
                        {.op = Op::write,
                         .offset_bytes = done,
                         .range_bytes = size - done,
                         .block_bytes = kFillBlockBytes,
                         .depth = kFillDepth,
                         .preallocate = true},
                        stop_)
        .status();
  }

  Result<Measurement> measure_read(const DiskCase& row, DiskResult& result) {
    STOKER_TRY(prepare_data());
    const bool is_warm = row.cache == CacheState::warm;
    const std::uint64_t size = data_->file().size_bytes();
    const std::uint64_t range =
        is_warm ? std::max<std::uint64_t>(warm_range_bytes(size), row.block_bytes) : size;
    const int fd = data_->file().buffered_fd();
    STOKER_ASSIGN(const CacheCheck check,
                  is_warm ? make_warm(fd, range, *pool_, stop_) : make_cold(fd));
    note_cache(check, result);

    // A second pass over a cold file would find it warm, except with direct I/O.
    const bool repeat = is_warm || row.policy.cache == CachePolicy::direct;
    const bool is_random = row.kind == CaseKind::rand_read;
    const Workload workload{.pattern = is_random ? Pattern::random : Pattern::sequential,
                            .range_bytes = range,
                            .block_bytes = row.block_bytes,
                            .depth = row.depth,
                            .time_max = options_.time_per_case,
                            .repeat = repeat};
    const std::string path = data_->reopen_path();
    if (row.policy.is_mapped) {
      const MapAdvice advice = is_random ? MapAdvice::random : MapAdvice::sequential;
      const Result<MappedFile> file = MappedFile::open(path, advice);
      if (!file.ok())
        return Status(Code::unsupported,
                      "no mapping here: " + std::string(file.status().message()));
      return run_mapped_workload(*file, *pool_, workload, stop_);
    }
    Result<File> file = File::open(ops_, path, {.policy = row.policy.cache});
    if (!file.ok()) return file.status();
    return run_workload(*engine_, *file, *pool_, workload, stop_);
  }

  Result<Measurement> measure_sync(const DiskCase& row, Op op) {
    data_.reset();
    STOKER_ASSIGN(ScratchFile scratch,
                  ScratchFile::create(ops_, options_.path, {.policy = row.policy.cache}));
    const std::uint64_t bytes_max = std::min(options_.size_bytes, kSyncBytesMax);
    return run_sync_latency(*engine_, scratch.file(), *pool_,
                            {.op = op,
                             .block_bytes = row.block_bytes,
                             .bytes_max = bytes_max,
                             .time_max = options_.time_per_case},
                            stop_);
  }

  SmallFilesWorkload small_files_of(const DiskCase& row) const {
    // A quarter of the room: each file also takes a block or two of metadata.
    const std::uint64_t fitting = options_.size_bytes / 4 / row.block_bytes;
    return {.file_bytes = row.block_bytes,
            .count_max = static_cast<std::uint32_t>(
                std::min<std::uint64_t>(options_.small_file_count_max, fitting)),
            .time_max = options_.time_per_case};
  }

  Result<Measurement> measure_small_create(const DiskCase& row) {
    data_.reset();
    small_.reset();
    STOKER_ASSIGN(ScratchDirectory directory, ScratchDirectory::create(ops_, options_.path));
    small_.emplace(std::move(directory));
    Result<Measurement> found =
        create_small_files(ops_, *engine_, *pool_, small_->path(), small_files_of(row), stop_);
    if (found.ok()) small_count_ = found->count;
    return found;
  }

  Result<Measurement> measure_small_read(const DiskCase& row, DiskResult& result) {
    if (!small_) STOKER_TRY(measure_small_create(row).status());
    STOKER_ASSIGN(const CacheCheck check,
                  row.cache == CacheState::warm
                      ? make_small_files_warm(ops_, *pool_, small_->path(), small_count_, stop_)
                      : make_small_files_cold(ops_, small_->path(), small_count_, stop_));
    note_cache(check, result);
    return read_small_files(ops_, *engine_, *pool_, small_->path(), small_count_,
                            small_files_of(row), stop_);
  }

  static void note_cache(const CacheCheck& check, DiskResult& result) {
    result.cache = check.state;
    result.resident_before = check.resident_share;
    result.note = check.note;
  }

  const DiskBenchOptions& options_;
  FileOps& ops_;
  const std::stop_token stop_;
  std::optional<BufferPool> pool_;
  std::unique_ptr<Engine> engine_;  // after the pool: it may have registered the pool's memory
  std::optional<ScratchFile> data_;
  std::optional<ScratchDirectory> small_;
  std::uint64_t small_count_ = 0;
};

std::string kernel_release() {
  utsname name{};
  return ::uname(&name) == 0 ? name.release : "";
}

}  // namespace

Result<DiskReport> run_disk_bench(const DiskBenchOptions& options, FileOps& ops,
                                  const ProgressSink& progress, const std::stop_token& stop) {
  STOKER_TRY(check_options(options));
  const std::vector<DiskCase> cases = make_disk_cases(options);
  if (cases.empty())
    return Status(Code::invalid_argument,
                  "no case is left to run: --policy does not apply to the cases of --only");
  STOKER_TRY(check_room(options.path, options.size_bytes, "--size"));
  sweep_scratch(ops, options.path);

  DiskReport report{.path = options.path,
                    .kernel = kernel_release(),
                    .size_bytes = options.size_bytes,
                    .time_per_case_ns = static_cast<std::uint64_t>(options.time_per_case.count())};
  STOKER_ASSIGN(const UniqueFd directory, ops.open(options.path, O_RDONLY | O_DIRECTORY));
  STOKER_ASSIGN(FilesystemKind kind, filesystem_of(directory.get()));
  report.filesystem = std::move(kind.name);

  DiskBench bench(options, ops, stop);
  STOKER_TRY(bench.prepare(cases, report));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (progress) progress({.step = i, .step_count = cases.size(), .what = describe(cases[i])});
    Result<DiskResult> result = bench.run(cases[i]);
    if (stop.stop_requested()) return Status(Code::cancelled, "interrupted");
    if (!result.ok()) return result.status().with_context(describe(cases[i]));
    report.results.push_back(*std::move(result));
  }
  return report;
}

}  // namespace stoker
