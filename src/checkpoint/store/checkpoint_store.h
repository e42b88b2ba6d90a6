#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/manifest/manifest.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/manifest/step_summary.h"
#include "checkpoint/store/checkpoint_writer.h"
#include "checkpoint/store/lock_options.h"
#include "checkpoint/store/open_step.h"
#include "checkpoint/store/staged_part.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

/// What bears the name of a checkpoint.
struct StoredStep {
  std::string name;  ///< One that parse_step_name() knows.
  /// Equal for equal checkpoints. To whoever holds the lock, the same name with the same id is the
  /// same checkpoint.
  std::uint64_t id = 0;
  bool is_checkpoint = true;  ///< False: something else has the name.
};

/// A name that is meant for something of ours and is something else. Nothing follows, writes or
/// removes it.
struct ForeignName {
  std::string name;
  std::string reason;
};

/// Makes the new text of a note from the text that is there; nothing if there is none.
using NoteChange = std::function<Result<std::string>(const std::optional<std::string>& text)>;

/// The place where checkpoints live: a directory, or a bucket. Saves, restores, retention and notes
/// reach it through here, and so can everything that is to be a place for checkpoints.
///
/// What a store promises:
/// 1. A checkpoint becomes visible as a whole, by one act: a rename in a directory, a put of an
///    object that must not exist in a bucket. What was staged and not committed is never seen.
/// 2. When commit() has come to CommitStage::durable, the checkpoint survives any crash.
/// 3. One writer at a time holds the lock. A writer whose lock was taken over can neither commit
///    nor remove anything from then on, however slow it is.
/// 4. A checkpoint that is removed vanishes as a whole; what others share with it stays.
/// 5. A note that update_note() has returned OK for is seen by a Retirement that has not asked yet
///    whether the checkpoint may go.
///
/// Calls end by themselves: a store over a network limits each of them, and answers `unavailable`.
/// (The directory's calls are limited from outside, by TimedFileOps.)
///
/// An object of this class is a handle; copies made by share() lead to the same place.
///
/// FileInfo says of a file whether it is the same as before. A store without inodes and times sets
/// numbers of its own: they differ when the bytes may.
///
/// Thread safety: const methods may be called from any thread.
/// Conformance: an implementation is done when it passes
/// tests/conformance/checkpoint_store_suite.h.
class CheckpointStore {
 public:
  virtual ~CheckpointStore() = default;

  /// Another handle on the same place, for whoever keeps one.
  virtual std::shared_ptr<const CheckpointStore> share() const = 0;

  /// As it was opened; for messages.
  virtual const std::string& path() const noexcept = 0;
  /// Whether that still leads to it. In doubt it does.
  virtual bool is_where_it_was() const = 0;
  /// False if it was removed. An error if nobody can tell.
  virtual Result<bool> is_there() const = 0;
  /// `unsupported` where there is no such number.
  virtual Result<std::uint64_t> free_bytes() const = 0;

  // Checkpoints. Nobody needs a lock to read them.

  /// By name.
  virtual Result<std::vector<StoredStep>> list_steps() const = 0;
  /// `not_found` if nothing has the name.
  virtual Result<StoredStep> find_step(std::string_view name) const = 0;
  /// The name that the last commit has left as the newest; empty where nothing says so.
  virtual Result<std::string> read_latest() const = 0;
  /// Tells without reading it whether a checkpoint's manifest is the same as before.
  virtual Result<FileInfo> find_manifest(std::string_view step) const = 0;
  virtual Result<CheckpointManifest> read_manifest(std::string_view step) const = 0;
  /// Opens a checkpoint to read it. `corrupt` if something else has the name.
  virtual Result<std::unique_ptr<OpenStep>> open_step(std::string_view name) const = 0;
  /// What CheckpointWriter::start_catalog() has kept. A cache: it may be empty, and wrong.
  virtual CatalogLines read_catalog() const { return {}; }
  virtual Result<std::vector<ForeignName>> find_foreign_names() const = 0;

  // Notes: one text for each step. Nobody needs a lock to write them.

  virtual Result<std::vector<std::uint64_t>> list_notes() const = 0;
  virtual Result<FileInfo> find_note(std::uint64_t step) const = 0;
  /// `not_found` if there is none.
  virtual Result<std::string> read_note(std::uint64_t step) const = 0;
  /// Replaces the text by what `change` makes of it, at once and durably. Of two changes at the
  /// same time none is lost, unless one takes very long. `change` may be called more than once; its
  /// error is returned, and nothing has changed. `check` is called once the text is durable, and
  /// its answer returned. A store that takes checkpoints out of sight before it asks whether they
  /// may go takes none out while `check` looks.
  virtual Status update_note(std::uint64_t step, const NoteChange& change,
                             const std::function<Status()>& check) const = 0;
  /// For messages.
  virtual std::string note_path_of(std::uint64_t step) const = 0;

  // Saving.

  /// Takes the lock, and ends or undoes what dead writers have begun. `unavailable` names who holds
  /// it.
  virtual Result<std::unique_ptr<StoreLock>> lock(const LockOptions& options) const = 0;
  /// Commits and removes under a lock that was taken by a handle on the same place.
  virtual std::unique_ptr<CheckpointWriter> make_writer(const StoreLock& lock) const = 0;

  /// A part of the checkpoint that is to be committed from `request.staging`. Any rank may stage
  /// one: the writer gives the name (CheckpointWriter::staging_name()).
  virtual std::unique_ptr<StagedPart> make_part(StageRequest request) const = 0;
  /// What StagedPart::seal() has stored of that rank.
  virtual Result<CheckpointPart> read_part(const std::string& staging,
                                           std::uint32_t rank) const = 0;
  /// Makes sure that nothing is committed from `staging` any more, for a rank that does not hear of
  /// the writer.
  virtual Abandoned abandon(const std::string& staging) const = 0;
  /// Whether a rank has done so.
  virtual bool is_abandoned(const std::string& staging) const = 0;

 protected:
  CheckpointStore() = default;
  CheckpointStore(const CheckpointStore&) = default;
  CheckpointStore& operator=(const CheckpointStore&) = default;
};

/// Keeps a handle on a store, for as long as it lives.
///
/// Thread safety: as the store's.
class StoreHandle {
 public:
  // Whoever has a store can give it to whoever keeps one.
  StoreHandle(const CheckpointStore& store)  // NOLINT(google-explicit-constructor)
      : store_(store.share()) {}
  explicit StoreHandle(std::shared_ptr<const CheckpointStore> store) : store_(std::move(store)) {}

  const CheckpointStore& operator*() const noexcept { return *store_; }
  const CheckpointStore* operator->() const noexcept { return store_.get(); }

 private:
  std::shared_ptr<const CheckpointStore> store_;
};

}  // namespace stoker
