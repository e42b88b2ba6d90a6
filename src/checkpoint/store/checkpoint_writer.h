#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/manifest/manifest.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/manifest/step_summary.h"
#include "stoker/status.h"

namespace stoker {

class CheckpointStore;

/// The right to commit and remove checkpoints in a store. The destructor releases it.
///
/// Thread safety: const methods may be called from any thread. In a forked child the lock is not
/// held, and the destructor does nothing.
class StoreLock {
 public:
  virtual ~StoreLock() = default;
  /// Unique among all locks ever taken.
  virtual const std::string& token() const noexcept = 0;
  /// Returns who has taken over the lock, for messages; nothing if it was not taken over.
  virtual std::optional<std::string> find_successor() const = 0;
};

/// The stage that a commit has reached.
enum class CommitStage : std::uint8_t {
  staged,   ///< The commit has failed; the checkpoint is not visible.
  visible,  ///< The checkpoint has, or may have, its name, but may lose it in a power cut.
  durable,  ///< The checkpoint is committed, but `latest` may not point to it.
  complete,
};

struct StepCommit {
  std::string staging;  ///< Contains every rank's sealed part.
  const CheckpointManifest& manifest;
  const std::string& manifest_text;  ///< format_checkpoint_manifest(manifest), to be stored.
  /// Set if a checkpoint of a rewound run has the step's name; it becomes a superseded checkpoint.
  /// The value is its generation, 0 if unknown.
  std::optional<std::uint64_t> superseded = {};

  // For directories that are one of several places (manifest/places.h); other stores need not look.
  std::optional<std::uint32_t> place = {};
  /// Called, if set, once everything is ready to become visible, and once it is durable, before
  /// `latest` moves. A failure ends the commit at that stage.
  std::function<Status()> before_visible = {};
  std::function<Status()> before_latest = {};
};

/// A checkpoint to be removed.
struct Retirement {
  std::string name;
  StepName parsed = {};
  std::uint64_t generation = 0;
  /// Called once the checkpoint is hidden. If it returns false, the checkpoint becomes visible
  /// again.
  std::function<bool(const Result<CheckpointManifest>& manifest)> may_go;
};

/// The result of CheckpointStore::abandon().
enum class Abandoned : std::uint8_t {
  done,       ///< Nothing will be committed from the staging name.
  not_there,  ///< Nothing is staged under it: it was already committed or removed.
  unknown,
};

/// Summaries of committed checkpoints, kept beside them. A cache.
class CatalogKeeper {
 public:
  virtual ~CatalogKeeper() = default;
  /// Failures are not reported: readers without a catalog read the manifests.
  virtual void add(const CatalogLine& line) = 0;
};

/// Commits and removes checkpoints for the holder of the lock. Once another writer has taken over,
/// commit(), retire() and remove() change nothing and return `not_found`.
///
/// Thread safety: const methods may be called from any thread.
class CheckpointWriter {
 public:
  virtual ~CheckpointWriter() = default;

  virtual const CheckpointStore& store() const noexcept = 0;
  /// Returns false once this writer knows that another one has taken over.
  virtual bool is_owner() const = 0;

  /// Returns the name under which the ranks stage the parts of a save. `number` must be different
  /// for each save under this lock.
  virtual std::string staging_name(std::uint64_t step, std::uint64_t number) const = 0;
  /// Turns staged parts into a checkpoint. `already_exists` if the name is taken and
  /// `commit.superseded` is not set; `not_found` also if a rank has abandoned the save. `stage` is
  /// set to the stage reached, also if this throws.
  virtual Status commit(const StepCommit& commit, CommitStage& stage) const = 0;
  /// Frees what was staged for a failed save. What cannot be removed is left to the next writer.
  virtual void discard_staged(const std::string& staging) const = 0;

  /// Hides a checkpoint for good and returns the argument for remove(); nothing if
  /// `retirement.may_go` keeps it. After an error the checkpoint is either intact under its name or
  /// left to the next writer to decide.
  virtual Result<std::optional<std::string>> retire(const Retirement& retirement) const = 0;
  /// Frees the space of a checkpoint that retire() has hidden.
  virtual Status remove(std::string_view condemned) const = 0;

  /// Writes a new catalog of `lines`; null if the store keeps none.
  virtual std::unique_ptr<CatalogKeeper> start_catalog(const CatalogLines& /*lines*/) const {
    return nullptr;
  }

 protected:
  CheckpointWriter() = default;
  CheckpointWriter(const CheckpointWriter&) = default;
  CheckpointWriter& operator=(const CheckpointWriter&) = default;
  CheckpointWriter(CheckpointWriter&&) = default;
  CheckpointWriter& operator=(CheckpointWriter&&) = default;
};

}  // namespace stoker
