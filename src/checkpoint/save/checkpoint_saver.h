#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fork_guard.h"
#include "base/mutex.h"
#include "checkpoint/catalog/retention.h"
#include "checkpoint/manifest/manifest.h"
#include "checkpoint/ranks/coordinator.h"
#include "checkpoint/staging/dedup.h"
#include "checkpoint/staging/layout.h"
#include "checkpoint/staging/tensor_copier.h"
#include "checkpoint/store/checkpoint_store.h"
#include "checkpoint/store/lock_options.h"
#include "io/engine/arena.h"
#include "io/engine/engine_factory.h"
#include "io/files/file.h"
#include "io/files/file_ops.h"
#include "stoker/save.h"

namespace stoker {

struct SaverOptions {
  std::string directory;  ///< Created if missing. With `store`, used in messages only.
  /// Storage other than a local directory; null: `directory`.
  std::shared_ptr<const CheckpointStore> store = {};
  /// `directory` names another directory on each node (manifest/places.h). Otherwise all ranks have
  /// the same one. The messages of the coordinator must not go through it.
  bool has_private_disks = false;
  LatePolicy late = LatePolicy::block;
  std::uint32_t in_flight = 1;  ///< Saves staged or being written. `replace` needs two.
  /// Total staging memory. A larger save passes through it in chunks, and save() returns when the
  /// last chunk was copied. Nothing: as much as `in_flight` saves need.
  std::optional<std::uint64_t> memory_bytes = {};
  std::uint64_t rate_limit_bytes_per_s = 0;  ///< 0: no limit.
  /// Time limit of one save, from call to commit. A write, sync or rename that the device has not
  /// completed by then fails the save.
  nanoseconds deadline = std::chrono::minutes(30);
  std::uint32_t copy_threads = 0;  ///< 0: one per core, at most 16.
  /// Copies tensors into staging memory; null: make_host_copier(copy_threads).
  std::shared_ptr<TensorCopier> copier = {};
  ArenaMaker staging_arena = {};  ///< Allocates staging memory; empty: mapped pages.
  bool dedup = true;              ///< Link unchanged files instead of writing them.
  GroupPlanner::Limits group_limits = {};
  std::optional<CheckpointParent> parent = {};  ///< The checkpoint this run was restored from.
  LockOptions lock = {};
  std::shared_ptr<Coordinator> coordinator = {};  ///< Null: a single rank.
  File::Options file = {};
  std::string tool = "stoker";
  /// Receives, in save(), names of tensors that each rank stores because they differ between ranks,
  /// when the ranks have compared them: on the first rank that has them.
  std::function<void(const std::vector<std::string>&)> on_differing = {};
  /// Applied by rank 0 once `latest` has moved. Checkpoints of runs that this one does not continue
  /// stay. Unwanted checkpoints are hidden before the save is acknowledged; their blocks are freed
  /// afterwards, in the background.
  RetentionRules retention = {};

  // Seams for tests.
  FileOps* ops = nullptr;              ///< Default: posix_file_ops().
  EngineFactory engine = {};           ///< Default: the best engine available.
  std::string line = {};               ///< Line of its checkpoints (lineage.h); empty: random.
  std::function<double()> now_s = {};  ///< Seconds since 1970; default: the system clock.
  /// Free space of the directory; default: CheckpointStore::free_bytes().
  std::function<Result<std::uint64_t>(const std::string&)> free_bytes = {};
};

/// One checkpoint. State, cursor and extra are JSON texts. Each rank saves its own state; extra,
/// cursor and reference are taken from rank 0.
struct SaveRequest {
  std::uint64_t step = 0;
  std::vector<SaveTensor> tensors = {};
  std::string state_json = "null";
  std::string extra_json = "null";
  std::string cursor_json = "null";
  std::map<std::string, double> reference = {};
  /// An error found before save() was called. It fails the save on every rank; otherwise the other
  /// ranks would wait for this one until their deadlines.
  Status refusal = {};
  DeviceUse devices = {};  ///< For tensors on devices.
  /// Time limit of this save, instead of SaverOptions::deadline.
  std::optional<nanoseconds> deadline = {};
};

/// Saves checkpoints in the background. Every rank of a run has one, and calls save() for the same
/// steps in the same order.
///
/// The error of a save is returned once by the next save(), wait() or close(), and always by its
/// own PendingSave. A save() that returns such an error has saved nothing. Errors after the commit,
/// such as those of retention, are not returned by save(); an error that occurs after the save was
/// acknowledged, while blocks are freed, is returned by wait() and close() only.
///
/// Thread safety: save() and close() from one thread at a time; the others from any. In a forked
/// child save(), wait() and close() return `unsupported`, progress() returns zeros, and the
/// destructor does nothing.
class CheckpointSaver {
 public:
  /// `invalid_argument` for missing or contradictory options. Writes nothing: the first save()
  /// creates the directory and takes its lock.
  static Result<std::unique_ptr<CheckpointSaver>> make(SaverOptions options);
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;
  /// Waits for the saves in flight, unless close() has abandoned them.
  ~CheckpointSaver();

  /// Copies the tensors and returns; they may change from then on, on devices by work that the
  /// streams of SaveRequest::devices get. `already_exists` if this run, or
  /// one that it continues, has saved the step; `no_space` if there is no room for it.
  Result<PendingSave> save(SaveRequest request);

  /// Waits for all saves in flight, and for the removals of retention. `unavailable` if `timeout`
  /// passes first.
  Status wait(nanoseconds timeout = kForever);

  /// wait(), then stops the writer and releases the lock. After a timeout the saves in flight are
  /// abandoned: their threads run until the process ends, and nothing waits for them.
  Status close(nanoseconds timeout = kForever);

  SaveProgress progress() const;

 private:
  class Core;
  explicit CheckpointSaver(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core() const;
  void forget_core();

  ForkGuard guard_;
  mutable Mutex mutex_;
  // Null after close(). Leaked in a forked child, and after a close() that timed out.
  std::shared_ptr<Core> core_ STOKER_GUARDED_BY(mutex_);
};

}  // namespace stoker
