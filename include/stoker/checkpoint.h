/// \file
/// Checkpointer saves the state of a program in the background and restores it exactly; Checkpoint
/// opens one checkpoint, or safetensors files, for reading. What C++ has saved Python restores, and
/// the other way round.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/api.h"
#include "stoker/cursor.h"
#include "stoker/device.h"
#include "stoker/io.h"
#include "stoker/ranks.h"
#include "stoker/save.h"
#include "stoker/status.h"
#include "stoker/tensor.h"
#include "stoker/tree.h"

namespace stoker {

struct CheckpointerOptions {
  /// Created by the first save. Required.
  std::string directory = {};

  // Which checkpoints stay: those that a rule selects; without rules, all.
  std::optional<std::uint64_t> keep_last = {};   ///< This many of the newest.
  std::optional<std::uint64_t> keep_every = {};  ///< Steps that are multiples of this number.
  std::optional<KeepBest> keep_best = {};

  LatePolicy late = LatePolicy::block;
  std::uint32_t in_flight = 1;  ///< Saves in progress, each with its copy of the state.
  /// Memory for all those copies. Larger states are saved in pieces. Nothing: what they need.
  std::optional<std::uint64_t> memory_bytes = {};
  std::uint64_t rate_limit_bytes_per_s = 0;  ///< 0: no limit.
  bool dedup = true;                         ///< Link unchanged files instead of writing them.
  /// Of one save, or restore. Not negative.
  std::chrono::nanoseconds deadline = std::chrono::minutes(30);

  /// What the first save does while another process writes here: wait this long, but not beyond its
  /// deadline. 0: fail.
  std::chrono::nanoseconds lock_timeout = std::chrono::nanoseconds::max();
  /// A writer on another machine that gives no sign of life for this long is considered dead.
  std::chrono::nanoseconds lock_ttl = std::chrono::seconds(60);
  /// How long the destructor, and a close() without a timeout, wait for saves.
  std::chrono::nanoseconds close_timeout = std::chrono::minutes(10);

  /// This process among those that save and restore together, by the same calls in the same order,
  /// in a directory that all can access. If a rank is missing or fails, the call fails on every
  /// rank, by the deadline, and names it.
  Ranks ranks = {};
  /// A text that is the same on all ranks of this start, and new for every start, such as
  /// job_from_environment(). Empty: the process that has started all ranks, which must be on one
  /// machine.
  std::string job = {};
  /// A directory that all ranks can write to, where they agree by small files. Empty: `directory`.
  std::string meeting = {};
  /// `directory` names another directory on each node, on a disk of its own: every node stores what
  /// its ranks save, and a checkpoint counts if all have it. Needs `meeting`.
  bool has_private_disks = false;

  /// Gets what a person should know and no call returns: for whom a long wait is, which damaged
  /// checkpoints were skipped, that another run saves here. Called by any thread, also while others
  /// wait; must not call the Checkpointer. What it throws is dropped.
  std::function<void(const std::string& text)> on_notice = {};
};

/// Returns a job for CheckpointerOptions from the variables of torchrun, SLURM or Open MPI; empty
/// if there are none. Reads the environment.
STOKER_API std::string job_from_environment();

class Loader;

/// What is saved beside the trees.
struct SaveOptions {
  /// Its position is committed with the state: on all ranks the same.
  const Loader* loader = nullptr;
  /// The position instead, such as Batch::cursor() of the last batch that was used.
  std::optional<Cursor> cursor = {};
  std::map<std::string, double> reference = {};  ///< To compare a resumed run with: the loss.
  Tree extra = {};                               ///< For people; without tensors.
  DeviceUse devices = {};                        ///< For tensors on CUDA devices.
};

/// A checkpoint that was skipped, and why.
struct SkippedCheckpoint {
  std::string name;
  Status reason;
};

struct RestoreOptions {
  /// The step to restore. Nothing: the newest valid checkpoint; damaged ones are skipped.
  std::optional<std::uint64_t> step = {};
  /// The name of a checkpoint instead, such as "step-000000000020.superseded-2"; not with `step`.
  std::string name = {};
  /// Skip checkpoints with new values that are not finite.
  bool finite = false;
  /// False: names that were not saved keep their values, and are listed in Restored::missing.
  bool strict = true;
  /// Read and verify everything before anything in memory is changed. Takes memory for a second
  /// copy of what is restored; only for host memory.
  bool verify_before = false;
  /// Continues at the saved position, and counts on from the step. If it cannot, for example
  /// because the data are others, nothing is changed.
  Loader* loader = nullptr;
  /// What may differ between the saved loader and this one, as for Loader::resume().
  std::vector<std::string> allow = {};
  /// Called with the saved position before anything is changed: an error ends the restore.
  std::function<Status(const Cursor& cursor)> check_cursor = {};
  /// Streams that write to tensors on devices: what they have at the time of the call comes first.
  std::vector<DeviceStream> streams = {};
};

/// What was restored.
struct Restored {
  std::uint64_t step = 0;
  std::string path = {};         ///< Of the checkpoint.
  std::uint64_t generation = 0;  ///< Which checkpoint is newer; steps may be rewound.
  std::string line = {};         ///< Of the writer; with the generation it is unique.
  std::uint32_t world_size = 1;  ///< Number of ranks that saved it.
  std::optional<Cursor> cursor = {};
  std::map<std::string, double> reference = {};
  Tree extra = {};
  std::vector<SkippedCheckpoint> skipped = {};  ///< Newer ones that are damaged.
  std::vector<std::string> missing = {};   ///< Names in memory that were not saved, if not strict.
  std::vector<std::string> left_out = {};  ///< Saved trees that were not asked for.
};

/// Compares numbers of a resumed run with those that the checkpoint was saved with
/// (SaveOptions::reference): `invalid_argument`, with all that differ by more than the relative
/// tolerance, and for a name that was not saved. NaN is equal to NaN.
STOKER_API Status check_reference(const Restored& restored,
                                  const std::map<std::string, double>& values,
                                  double relative_tolerance = 1e-3);

/// When a save is due.
struct Due {
  std::uint64_t every_steps = 0;                                     ///< 0: never.
  std::chrono::nanoseconds every = std::chrono::nanoseconds::max();  ///< Since the last save.
};

/// Saves and restores checkpoints in one directory. save() copies the state and returns; a thread
/// writes it, checks it and makes it durable.
///
/// The error of a save is returned once by the next save(), wait() or close(), and always by its
/// own PendingSave. A save() that returns such an error has saved nothing.
///
/// Thread safety: save(), restore() and close() from one thread at a time; the others from any. Of
/// two Checkpointers of one directory, in one process too, the second waits for the lock of the
/// first (`lock_timeout`). In a forked child, save(), restore(), wait() and close() return
/// `unsupported`, and the destructor does nothing. No signal handler is installed: a signal that
/// ends the process ends the save as well, and the checkpoint before it is untouched.
class STOKER_API Checkpointer {
 public:
  /// `invalid_argument` for missing or contradictory options, and for a directory that is a file, a
  /// dataset or a checkpoint. Writes nothing: the first save creates the directory and takes its
  /// lock.
  static Result<std::unique_ptr<Checkpointer>> open(CheckpointerOptions options);
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;
  /// As close(), if it was not called: saves in flight are completed, within `close_timeout`. Their
  /// errors are lost.
  ~Checkpointer();

  /// Saves a map of trees by name: `save(step, {{"model", model}, {"losses", losses}})`. The
  /// tensors were copied on return and may change; those on devices, by work that the streams of
  /// `options` get from then on.
  ///
  /// Tensors get the names of their places, "model.weights"; with several ranks, those that are
  /// equal are stored once. `invalid_argument` names the place of a value that cannot be saved, of
  /// this rank or another. `already_exists` if this run, or one that it continues, has saved the
  /// step; `no_space` if there is no room for it; `unavailable` if another writer has the lock or a
  /// rank did not answer.
  Result<PendingSave> save(std::uint64_t step, const Tree& trees, const SaveOptions& options = {});

  /// Restores the newest valid checkpoint, or the one that `options` names; nothing if there is
  /// none. `trees` has the trees in memory by name: the memory of tensors is filled in place, and
  /// everything else is set to its saved value. A null is created, with tensors in memory of their
  /// own (TensorView::owner). Names of a map that were not in memory are added. On an error the
  /// values that are no tensors are unchanged, and the message says if memory of tensors is not.
  ///
  /// `invalid_argument` names the places where a type or a shape differs, or what was not saved:
  /// nothing was changed. Shapes and types are never converted. `corrupt` if there are checkpoints
  /// and none is valid; `not_found` if there is none of that name; `unavailable` if a rank did not
  /// answer. The next save continues what was restored.
  ///
  /// Each of several ranks gets what it saved, all from the same checkpoint; another number of
  /// ranks gets what was the same on all of them, and parts of tensors.
  Result<std::optional<Restored>> restore(Tree& trees, const RestoreOptions& options = {});

  /// Whether to save now: at multiples of a number of steps, or after a time. A step that was just
  /// saved or restored is not due, nor is step 0 by its number. A time is for one rank alone, and
  /// ignored with several: their clocks differ.
  bool due(std::uint64_t step, const Due& due) const;

  /// Returns the steps whose manifest was valid when last read, oldest checkpoint first.
  Result<std::vector<std::uint64_t>> steps() const;
  /// Returns the step of the newest checkpoint; nothing if there is none.
  Result<std::optional<std::uint64_t>> latest() const;

  /// Adds numbers to a checkpoint, for `keep_best` and for people; waits for its save. `not_found`
  /// if there is no such step, `corrupt` if it is damaged.
  Status annotate(std::uint64_t step, const std::map<std::string, double>& values);
  /// Keeps a checkpoint regardless of the rules; `is_pinned` false undoes it. Errors as annotate().
  Status pin(std::uint64_t step, bool is_pinned = true);

  SaveProgress progress() const;
  /// Waits for all saves. `unavailable` if `timeout` passes first.
  Status wait(std::chrono::nanoseconds timeout = std::chrono::nanoseconds::max());
  /// wait(), then releases the lock. After a timeout the saves in flight are abandoned: their
  /// threads run until the process ends. Nothing: CheckpointerOptions::close_timeout.
  Status close(std::optional<std::chrono::nanoseconds> timeout = {});

 private:
  class [[gnu::visibility("hidden")]] Impl;
  explicit Checkpointer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A checkpoint in a directory, as Checkpoint::list() finds it.
struct ListedCheckpoint {
  std::string name;  ///< Of its directory: "step-000000001000".
  std::uint64_t step = 0;
  std::uint64_t generation = 0;
  std::string line = {};
  bool is_superseded = false;  ///< A rewound run has saved the step again.
  Status problem = {};         ///< Why it cannot be read; OK if its manifest is valid.
};

struct CheckpointOpenOptions {
  std::size_t thread_count = 0;  ///< Of one read; 0: one per core, at most 4.
  std::uint32_t depth = 4;       ///< Reads of 4 MiB in flight per thread.
  /// `buffered` if other processes of this machine read the same files, now or soon: all together
  /// then read the disk once. `direct` needs a filesystem that has it.
  CachePolicy cache = CachePolicy::automatic;
};

/// One checkpoint, or safetensors files of any program, open for reading. Nothing is read but the
/// manifest or the headers until tensors are asked for, and then the bytes that have them.
///
/// Every byte of a checkpoint is verified by the checksum of its chunk of 4 MiB before it is
/// returned. Safetensors files have no checksums: their headers, sizes and index are checked.
///
/// Thread safety: const methods from several threads at once. Works in a forked child. Copies share
/// the open files. It stays readable while its Checkpointer removes the checkpoint.
class STOKER_API Checkpoint {
 public:
  /// Opens `path`: a checkpoint ("run/step-000000000020", or "run/20" for short); a directory of
  /// checkpoints or "latest" in it, for the newest that can be opened; a safetensors file; an index
  /// (model.safetensors.index.json) or a folder of safetensors files, as Hugging Face writes it.
  /// `not_found` if there is nothing; `corrupt` if it is damaged; `invalid_argument` for anything
  /// else.
  static Result<Checkpoint> open(const std::string& path,
                                 const CheckpointOpenOptions& options = {});
  /// Lists a directory of checkpoints, newest first.
  static Result<std::vector<ListedCheckpoint>> list(const std::string& directory);

  Checkpoint(const Checkpoint& other);
  Checkpoint(Checkpoint&& other) noexcept;
  Checkpoint& operator=(const Checkpoint& other);
  Checkpoint& operator=(Checkpoint&& other) noexcept;
  ~Checkpoint();

  /// Path of the checkpoint, or of the folder or file.
  const std::string& path() const noexcept;
  /// Whether what is read is verified: false for safetensors files.
  bool has_checksums() const noexcept;

  /// All tensors, sorted by name.
  std::span<const TensorInfo> tensors() const noexcept;
  /// Returns a tensor by its stored name, or by the name of its place in the trees; null if there
  /// is none. Of several ranks' own tensors of one name, that of rank 0.
  const TensorInfo* find(std::string_view name) const;

  /// Fills every target, reading each chunk of the files at most once. `not_found` for a name that
  /// there is not; the message of `corrupt` names file, offset and tensors. After a failure the
  /// contents of the targets are undefined. On return nothing writes to them any more, and those on
  /// devices are complete.
  Status read(std::span<const ReadTarget> targets, const std::vector<DeviceStream>& streams = {},
              std::stop_token stop = {}) const;
  /// Reads a whole tensor, without gaps. `memory` must have its size.
  Status read(std::string_view name, std::span<std::byte> memory) const;
  /// Reads a box of a tensor: what begins at `offsets` and has `shape`.
  Status read(std::string_view name, std::vector<std::uint64_t> offsets,
              std::vector<std::uint64_t> shape, std::span<std::byte> memory) const;
  /// Reads a whole tensor of elements of type T. `invalid_argument` if it has others.
  template <typename T>
  Result<std::vector<T>> read_values(std::string_view name) const;

  /// Returns the XXH3-128 of a tensor: from the manifest, or else by reading it.
  Result<Digest128> digest(std::string_view name) const;
  /// Reads everything and compares all checksums. `corrupt`, with the first damage; `unsupported`
  /// for safetensors files.
  Status verify(std::stop_token stop = {}) const;

  // Of checkpoints; safetensors files have none of these.

  std::optional<std::uint64_t> step() const noexcept;
  std::uint64_t generation() const noexcept;
  const std::string& line() const noexcept;
  std::uint32_t world_size() const noexcept;
  /// Time of the commit, in seconds since 1970, UTC.
  double time_s() const noexcept;
  const std::map<std::string, double>& reference() const noexcept;
  /// The trees of one rank by name. Tensors have a type, a shape, and the name by which to read
  /// them, and no memory; a part of a tensor has the shape of the whole.
  Result<Tree> trees(std::uint32_t rank = 0) const;
  Result<Tree> extra() const;
  /// The saved position of the loader; nothing if none was saved. `invalid_argument` if it is that
  /// of another kind of loader.
  Result<std::optional<Cursor>> cursor() const;

 private:
  class [[gnu::visibility("hidden")]] Impl;
  explicit Checkpoint(std::shared_ptr<const Impl> impl);
  Status check_type(std::string_view name, TensorType type, std::uint64_t& size_bytes) const;
  std::shared_ptr<const Impl> impl_;
};

template <typename T>
Result<std::vector<T>> Checkpoint::read_values(std::string_view name) const {
  static_assert(!std::same_as<T, bool>, "std::vector<bool> has no memory to read into");
  std::uint64_t size_bytes = 0;
  STOKER_TRY(check_type(name, tensor_type_of<T>(), size_bytes));
  std::vector<T> values(static_cast<std::size_t>(size_bytes / sizeof(T)));
  STOKER_TRY(read(name, std::as_writable_bytes(std::span(values))));
  return values;
}

}  // namespace stoker
