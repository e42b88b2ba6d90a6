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
#include "checkpoint/catalog/retention.h"
#include "checkpoint/manifest/manifest.h"
#include "checkpoint/ranks/coordinator.h"
#include "checkpoint/save/pending.h"
#include "checkpoint/staging/dedup.h"
#include "checkpoint/staging/layout.h"
#include "checkpoint/staging/tensor_copier.h"
#include "checkpoint/store/checkpoint_store.h"
#include "checkpoint/store/lock_options.h"
#include "io/engine/arena.h"
#include "io/engine/engine_factory.h"
#include "io/files/file.h"
#include "io/files/file_ops.h"

namespace stoker {

/// What save() does when as many saves as allowed are in flight.
enum class LatePolicy : std::uint8_t {
  block,    ///< Wait for one to end.
  skip,     ///< Do not save.
  replace,  ///< Drop the one that waits for the writer, if there is one; else wait.
};

struct CheckpointerOptions {
  std::string directory;  ///< Made if it is not there. With `store`, for messages alone.
  /// Another place than a directory; nothing: the directory.
  std::shared_ptr<const CheckpointStore> store = {};
  LatePolicy late = LatePolicy::block;
  std::uint32_t in_flight = 1;  ///< Saves staged or being written. `replace` needs two.
  /// For staging, in all. A save that needs more passes through in chunks, and save() returns when
  /// the last of them was copied. Nothing: as much as `in_flight` saves need.
  std::optional<std::uint64_t> memory_bytes = {};
  std::uint64_t rate_limit_bytes_per_s = 0;  ///< 0: as fast as the disk.
  /// Of one save, from call to commit; a write, sync or rename that the device does not end by then
  /// fails it.
  nanoseconds deadline = std::chrono::minutes(30);
  std::uint32_t copy_threads = 0;  ///< 0: one per core, at most 16.
  /// What brings tensors into staging memory; nothing: make_host_copier(copy_threads).
  std::shared_ptr<TensorCopier> copier = {};
  ArenaMaker staging_arena = {};  ///< Where staging memory comes from; nothing: mapped pages.
  bool dedup = true;              ///< Link what has not changed.
  GroupPlanner::Limits group_limits = {};
  std::optional<CheckpointParent> parent = {};  ///< What this run was restored from.
  LockOptions lock = {};
  std::shared_ptr<Coordinator> coordinator = {};  ///< Nothing: this process is alone.
  File::Options file = {};
  std::string tool = "stoker";
  /// Applied by rank 0 once `latest` has moved. What another run has left, which this one does
  /// not continue, stays. Unwanted checkpoints are out of sight when the save
  /// is durable; their blocks are freed while the caller goes on.
  RetentionRules retention = {};

  // Seams for tests.
  FileOps* ops = nullptr;     ///< posix_file_ops().
  EngineFactory engine = {};  ///< The best one here.
  std::string line = {};      ///< For tests: that of its checkpoints; empty: drawn (lineage.h).
  std::function<double()> now_s = {};                                        ///< Since 1970.
  std::function<Result<std::uint64_t>(const std::string&)> free_bytes = {};  ///< statvfs.
};

/// One checkpoint. State, cursor and extra are JSON texts; extra, cursor and reference count on
/// rank 0, state is each rank's own.
struct SaveRequest {
  std::uint64_t step = 0;
  std::vector<SaveTensor> tensors;
  std::string state_json = "null";
  std::string extra_json = "null";
  std::string cursor_json = "null";
  std::map<std::string, double> reference = {};
  /// Why it cannot be saved, found before save() was called. It then fails, and on the other ranks
  /// as well, which would otherwise wait for this one until their deadlines.
  Status refusal = {};
};

enum class SaveStage : std::uint8_t { idle, writing, committing };

struct CheckpointerProgress {
  SaveStage stage = SaveStage::idle;
  std::uint64_t step = 0;  ///< Being written; the rest of the figures are of it.
  std::uint64_t size_bytes = 0;
  std::uint64_t staged_bytes = 0;
  std::uint64_t written_bytes = 0;
  std::uint32_t in_flight = 0;
};

/// Saves checkpoints in the background. Every rank of a run has one, and calls save() for the same
/// steps in the same order.
///
/// The error of a save is returned once by the next save(), wait() or close(), and always by its
/// own Pending. A call that returns such an error has done nothing else. What goes wrong after a
/// save was acknowledged, when blocks of others are freed, is told in the first way only.
///
/// Thread safety: save() and close() from one thread at a time; the others from any. In a forked
/// child every method answers `unsupported` and the destructor does nothing.
class Checkpointer {
 public:
  /// `invalid_argument` for options that contradict each other. Writes nothing yet: the directory
  /// is made and its lock taken by the first save().
  static Result<std::unique_ptr<Checkpointer>> make(CheckpointerOptions options);
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;
  /// Waits for the saves in flight, unless close() has given them up.
  ~Checkpointer();

  /// Copies the tensors and returns; they may change from then on. `already_exists` if this run has
  /// saved the step; `no_space` if there is no room for it.
  Result<Pending> save(SaveRequest request);

  /// Waits for all saves in flight, and for what retention removes behind them. `unavailable` when
  /// `timeout` has passed first.
  Status wait(nanoseconds timeout = kForever);

  /// wait(), then the end of the writer, and the lock is free. After a time-out what is in flight
  /// is given up: its threads go on until the process ends, but nobody waits for them.
  Status close(nanoseconds timeout = kForever);

  CheckpointerProgress progress() const;

 private:
  class Core;
  explicit Checkpointer(std::unique_ptr<Core> core);

  ForkGuard guard_;
  std::unique_ptr<Core> core_;  // let go of in a child, and after a close() that timed out
};

}  // namespace stoker
