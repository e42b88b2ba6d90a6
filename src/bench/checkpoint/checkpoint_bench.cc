#include "bench/checkpoint/checkpoint_bench.h"

#include <fcntl.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "bench/checkpoint/bench_tensors.h"
#include "bench/scratch.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/restore/reader.h"
#include "checkpoint/save/checkpoint_saver.h"
#include "checkpoint/staging/stoppable_engine.h"
#include "io/engine/buffer_pool.h"
#include "io/files/filesystem.h"
#include "stoker/units.h"

namespace stoker {
namespace {

constexpr std::size_t kWarmBytes = std::size_t{1} << 20;

nanoseconds median_after_first(std::vector<SaveSample> saves, nanoseconds SaveSample::* member) {
  if (saves.empty()) return nanoseconds(0);
  if (saves.size() > 1) saves.erase(saves.begin());
  std::ranges::sort(saves, {}, member);
  return saves[saves.size() / 2].*member;
}

class Bench {
 public:
  Bench(const CheckpointBenchOptions& options, FileOps& ops, const ProgressSink& progress,
        const std::stop_token& stop)
      : options_(options), ops_(ops), progress_(progress), stop_(stop) {}

  Result<CheckpointReport> run();

 private:
  Status check_options() const;
  Status save_all(BenchTensors& tensors);
  Result<SaveSample> save(CheckpointSaver& saver, const BenchTensors& tensors, std::uint64_t step);
  Result<RestoreSample> restore(BenchTensors& tensors, bool is_cold);
  Result<CacheCheck> prepare(const CheckpointReader& reader, bool is_cold) const;

  /// Reports any failure after a stop request as an interruption.
  Status explain(Status status) const {
    if (status.ok() || !stop_.stop_requested()) return status;
    return Status(Code::cancelled, "interrupted");
  }
  void announce(std::string what) {
    if (progress_)
      progress_({.step = step_, .step_count = options_.save_count + 3, .what = std::move(what)});
    ++step_;
  }

  const CheckpointBenchOptions& options_;
  FileOps& ops_;
  const ProgressSink& progress_;
  const std::stop_token stop_;
  std::string directory_;
  std::size_t step_ = 0;
  CheckpointReport report_;
};

Status Bench::check_options() const {
  if (options_.size_bytes < CheckpointBenchOptions::kSizeBytesMin)
    return Status(Code::invalid_argument, "--size " + format_bytes(options_.size_bytes) +
                                              " is too small: use at least " +
                                              format_bytes(CheckpointBenchOptions::kSizeBytesMin));
  // A checkpoint is kept until the next one is committed.
  const std::uint64_t on_disk =
      options_.size_bytes > ~std::uint64_t{0} / 2 ? options_.size_bytes : 2 * options_.size_bytes;
  Status room = check_room(options_.path, on_disk, "--size");
  if (room.code() != Code::no_space) return room;
  STOKER_ASSIGN(const std::uint64_t free_bytes, free_bytes_of(options_.path));
  return Status(Code::no_space, options_.path + " has " + format_bytes(free_bytes) +
                                    " free, too little for two checkpoints of --size " +
                                    format_bytes(options_.size_bytes) +
                                    ": lower it or choose another directory");
}

Result<SaveSample> Bench::save(CheckpointSaver& saver, const BenchTensors& tensors,
                               std::uint64_t step) {
  SaveSample sample;
  SaveRequest request{.step = step, .tensors = tensors.to_save()};
  const Deadline begin = Clock::now();
  STOKER_ASSIGN(const PendingSave pending, saver.save(std::move(request)));
  sample.blocked = Clock::now() - begin;
  STOKER_TRY(pending.wait());
  sample.durable = Clock::now() - begin;
  return sample;
}

Status Bench::save_all(BenchTensors& tensors) {
  // A checkpoint is kept until the next one is committed.
  STOKER_ASSIGN(const std::unique_ptr<CheckpointSaver> saver,
                CheckpointSaver::make({.directory = directory_,
                                       .retention = {.keep_last = 1},
                                       .ops = &ops_,
                                       .engine = make_stoppable_writes(stop_, options_.engine)}));
  for (std::uint64_t step = 1; step <= options_.save_count; ++step) {
    announce("save " + std::to_string(step) + ", " + format_bytes(tensors.size_bytes()));
    tensors.change(step);
    Result<SaveSample> sample = save(*saver, tensors, step);
    if (!sample.ok()) {
      static_cast<void>(saver->close());  // save() has reported the error
      return sample.status();
    }
    report_.saves.push_back(*sample);
    STOKER_TRY(saver->wait());  // until the previous checkpoint is removed and its blocks are free
    if (stop_.stop_requested()) return Status(Code::cancelled, "interrupted");
  }
  return saver->close();
}

/// Evicts or caches all files of the checkpoint, and returns the state that was reached.
Result<CacheCheck> Bench::prepare(const CheckpointReader& reader, bool is_cold) const {
  STOKER_ASSIGN(BufferPool pool, BufferPool::make({.budget_bytes = kWarmBytes}));
  CacheCheck worst{.state = is_cold ? CacheState::cold : CacheState::warm};
  for (const CheckpointFile& file : reader.manifest().files) {
    STOKER_ASSIGN(const UniqueFd fd, ops_.open(reader.directory() + "/" + file.name, O_RDONLY));
    STOKER_ASSIGN(const CacheCheck found, is_cold
                                              ? make_cold(fd.get())
                                              : make_warm(fd.get(), file.size_bytes, pool, stop_));
    if (found.state != worst.state) worst = found;
  }
  return worst;
}

Result<RestoreSample> Bench::restore(BenchTensors& tensors, bool is_cold) {
  announce(is_cold ? "restore, cold" : "restore, warm");
  const Digest128 saved = tensors.digest();
  tensors.clear();
  STOKER_ASSIGN(const CheckpointReader reader,
                CheckpointReader::open(ops_, directory_ + "/" + step_name(options_.save_count),
                                       {.engine = make_engine_factory(options_.engine)}));
  STOKER_ASSIGN(const CacheCheck check, prepare(reader, is_cold));
  RestoreSample sample{.state = check.state, .note = check.note};
  const std::vector<ReadTarget> targets = tensors.to_fill();
  const Deadline begin = Clock::now();
  STOKER_TRY(reader.read_all(targets, {.stop = stop_}));
  sample.elapsed = Clock::now() - begin;
  if (tensors.digest() != saved)
    return Status(Code::corrupt, "the restored tensors are not those that were saved");
  return sample;
}

Result<CheckpointReport> Bench::run() {
  if (stop_.stop_requested()) return Status(Code::cancelled, "interrupted");
  sweep_scratch(ops_, options_.path);
  STOKER_TRY(check_options());
  STOKER_ASSIGN(const ScratchDirectory scratch, ScratchDirectory::create(ops_, options_.path));
  directory_ = scratch.path() + "/checkpoints";
  announce("making " + format_bytes(options_.size_bytes) + " of tensors");
  STOKER_ASSIGN(BenchTensors tensors, BenchTensors::make(options_.size_bytes));
  report_.path = options_.path;
  report_.size_bytes = tensors.size_bytes();
  report_.tensor_count = tensors.count();
  {
    STOKER_ASSIGN(const UniqueFd fd, ops_.open(scratch.path(), O_RDONLY | O_DIRECTORY));
    STOKER_ASSIGN(const FilesystemKind kind, filesystem_of(fd.get()));
    report_.filesystem = kind.name;
  }
  STOKER_TRY(explain(save_all(tensors)));
  Result<RestoreSample> cold = restore(tensors, /*is_cold=*/true);
  if (!cold.ok()) return explain(cold.status());
  Result<RestoreSample> warm = restore(tensors, /*is_cold=*/false);
  if (!warm.ok()) return explain(warm.status());
  report_.cold = *std::move(cold);
  report_.warm = *std::move(warm);
  return report_;
}

}  // namespace

nanoseconds CheckpointReport::median_blocked() const {
  return median_after_first(saves, &SaveSample::blocked);
}

nanoseconds CheckpointReport::median_durable() const {
  return median_after_first(saves, &SaveSample::durable);
}

Result<CheckpointReport> run_checkpoint_bench(const CheckpointBenchOptions& options, FileOps& ops,
                                              const ProgressSink& progress,
                                              const std::stop_token& stop) {
  return Bench(options, ops, progress, stop).run();
}

}  // namespace stoker
