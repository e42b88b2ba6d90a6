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

/// An entry whose name is that of a checkpoint.
struct StoredStep {
  std::string name;  ///< Accepted by parse_step_name().
  /// Equal for equal checkpoints. While the caller holds the lock, the same name with the same id
  /// is the same checkpoint.
  std::uint64_t id = 0;
  bool is_checkpoint = true;  ///< False: something other than a checkpoint has the name.
};

/// A name that is reserved for Stoker but belongs to something else. Stoker never follows, writes
/// or removes it.
struct ForeignName {
  std::string name;
  std::string reason;
};

/// Returns the new text of a note, given its present text; `text` is empty if there is no note.
using NoteChange = std::function<Result<std::string>(const std::optional<std::string>& text)>;

/// Where checkpoints are stored: a directory or a bucket. Saves, restores, retention and notes use
/// this interface only, so a new kind of storage needs nothing but an implementation of it.
///
/// Guarantees:
/// 1. A checkpoint becomes visible as a whole, by one operation: a rename in a directory, a put of
///    an object that must not exist in a bucket. Staged data that was not committed is never
///    visible.
/// 2. Once commit() has reached CommitStage::durable, the checkpoint survives any crash.
/// 3. One writer at a time holds the lock. A writer whose lock was taken over can no longer commit
///    or remove anything, however slow it is.
/// 4. A removed checkpoint disappears as a whole; data that other checkpoints share with it stays.
/// 5. Once update_note() has returned OK, every Retirement that has not called `may_go` yet sees
///    the note.
///
/// No call blocks forever: a store over a network limits each call and returns `unavailable`.
/// (TimedFileOps limits the calls of the directory store.)
///
/// An object of this class is a handle; share() returns another handle on the same storage.
///
/// FileInfo tells whether a file is the same as before. A store without inodes and times sets
/// `kind` to regular, `size_bytes` to the size, and the other fields to numbers that differ
/// whenever the bytes may differ; files whose `kind` or size is wrong are never reused.
///
/// Thread safety: const methods may be called from any thread.
/// Conformance: an implementation is done when it passes
/// tests/conformance/checkpoint_store_suite.h.
class CheckpointStore {
 public:
  virtual ~CheckpointStore() = default;

  /// Returns another handle on the same storage, for callers that outlive this one.
  virtual std::shared_ptr<const CheckpointStore> share() const = 0;

  /// The path it was opened by; for messages.
  virtual const std::string& path() const noexcept = 0;
  /// Whether path() still leads to this storage. True in doubt.
  virtual bool is_where_it_was() const = 0;
  /// Returns false if the storage was removed, an error if that cannot be determined.
  virtual Result<bool> is_there() const = 0;
  /// `unsupported` if the store cannot tell.
  virtual Result<std::uint64_t> free_bytes() const = 0;

  // Checkpoints. Reading them needs no lock.

  /// Returns all visible entries, superseded checkpoints included, sorted by name.
  virtual Result<std::vector<StoredStep>> list_steps() const = 0;
  /// `not_found` if nothing has the name.
  virtual Result<StoredStep> find_step(std::string_view name) const = 0;
  /// Returns the name that the last commit recorded as the newest; empty if none is recorded.
  virtual Result<std::string> read_latest() const = 0;
  /// Identifies a checkpoint's manifest, to tell without reading it whether it has changed. This
  /// and read_manifest(): `not_found` if there is none, `corrupt` if its bytes are wrong.
  virtual Result<FileInfo> find_manifest(std::string_view step) const = 0;
  virtual Result<CheckpointManifest> read_manifest(std::string_view step) const = 0;
  /// Opens a checkpoint to read it. `corrupt` if something else has the name.
  virtual Result<std::unique_ptr<OpenStep>> open_step(std::string_view name) const = 0;
  /// Reads what the CatalogKeeper has stored. A cache: it may be empty or wrong.
  virtual CatalogLines read_catalog() const { return {}; }
  virtual Result<std::vector<ForeignName>> find_foreign_names() const = 0;

  // Notes: one text for each step. Writing them needs no lock.

  virtual Result<std::vector<std::uint64_t>> list_notes() const = 0;
  virtual Result<FileInfo> find_note(std::uint64_t step) const = 0;
  /// `not_found` if there is none.
  virtual Result<std::string> read_note(std::uint64_t step) const = 0;
  /// Replaces the text by the result of `change`, atomically and durably. Two concurrent updates
  /// both take effect, unless one takes very long. `change` may be called more than once; if it
  /// fails, its error is returned and the note is unchanged. `check` is called once the text is
  /// durable, and its result is returned. A store that hides a checkpoint before it calls
  /// Retirement::may_go hides none while `check` runs.
  virtual Status update_note(std::uint64_t step, const NoteChange& change,
                             const std::function<Status()>& check) const = 0;
  /// The path of a step's note, for messages.
  virtual std::string note_path_of(std::uint64_t step) const = 0;

  // Saving.

  /// Takes the lock, and completes or undoes what dead writers have begun. The message of
  /// `unavailable` names the holder.
  virtual Result<std::unique_ptr<StoreLock>> lock(const LockOptions& options) const = 0;
  /// Returns a writer for a lock that was taken through any handle on the same storage. It may
  /// outlive `lock`, but can then change nothing.
  virtual std::unique_ptr<CheckpointWriter> make_writer(const StoreLock& lock) const = 0;

  /// Returns one rank's part of the checkpoint to be committed from `request.staging`. Any rank may
  /// stage a part; the writer chooses the name (CheckpointWriter::staging_name()).
  virtual std::unique_ptr<StagedPart> make_part(StageRequest request) const = 0;
  /// Reads the part manifest that StagedPart::seal() stored for that rank.
  virtual Result<CheckpointPart> read_part(const std::string& staging,
                                           std::uint32_t rank) const = 0;
  /// Prevents any later commit from `staging`. For a rank that gets no answer from the writer.
  virtual Abandoned abandon(const std::string& staging) const = 0;
  /// Whether a rank has abandoned `staging`.
  virtual bool is_abandoned(const std::string& staging) const = 0;

 protected:
  CheckpointStore() = default;
  CheckpointStore(const CheckpointStore&) = default;
  CheckpointStore& operator=(const CheckpointStore&) = default;
};

/// Keeps the storage of a store open for as long as the handle exists.
///
/// Thread safety: that of the store.
class StoreHandle {
 public:
  // Implicit, so that a store can be passed wherever a handle is kept.
  StoreHandle(const CheckpointStore& store)  // NOLINT(google-explicit-constructor)
      : store_(store.share()) {}
  explicit StoreHandle(std::shared_ptr<const CheckpointStore> store) : store_(std::move(store)) {}

  const CheckpointStore& operator*() const noexcept { return *store_; }
  const CheckpointStore* operator->() const noexcept { return store_.get(); }

 private:
  std::shared_ptr<const CheckpointStore> store_;
};

}  // namespace stoker
