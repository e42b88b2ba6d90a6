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

/// The right to commit and remove checkpoints in a store. The destructor gives it back.
///
/// Thread safety: const methods may be called from any thread. In a forked child the lock is not
/// held, and the destructor does nothing.
class StoreLock {
 public:
  virtual ~StoreLock() = default;
  /// That no other lock has, or had.
  virtual const std::string& token() const noexcept = 0;
  /// Who has taken over, for messages; nothing if nobody has.
  virtual std::optional<std::string> find_successor() const = 0;
};

/// How far a commit has come.
enum class CommitStage : std::uint8_t {
  staged,   ///< Nobody can see it. It has failed.
  visible,  ///< It has its name, or may have; whether that survives a power cut is not known.
  durable,  ///< It is committed. `latest` may not lead to it.
  complete,
};

struct StepCommit {
  std::string staging;  ///< Holds every rank's sealed part.
  const CheckpointManifest& manifest;
  /// The generation of what bears the step's name now and belongs to a run that was rewound; 0 if
  /// nobody knows it. That becomes a superseded checkpoint.
  std::optional<std::uint64_t> superseded = {};
};

/// A checkpoint that is to go.
struct Retirement {
  std::string name;
  StepName parsed = {};
  std::uint64_t generation = 0;
  /// Asked once nobody sees the checkpoint any more. False: it is visible again.
  std::function<bool(const Result<CheckpointManifest>& manifest)> may_go;
};

/// What has become of abandoning a save.
enum class Abandoned : std::uint8_t {
  done,       ///< Nothing will be committed from there.
  not_there,  ///< Nothing is staged there: it was committed or removed before.
  unknown,
};

/// Summaries of committed checkpoints, kept beside them. A cache.
class CatalogKeeper {
 public:
  virtual ~CatalogKeeper() = default;
  /// Failures are not told: who has no catalog reads manifests.
  virtual void add(const CatalogLine& line) = 0;
};

/// Changes which checkpoints there are, for the holder of the lock. Once another writer has taken
/// over, every method fails and changes nothing: `not_found`.
///
/// Thread safety: const methods may be called from any thread.
class CheckpointWriter {
 public:
  virtual ~CheckpointWriter() = default;

  virtual const CheckpointStore& store() const noexcept = 0;
  /// False once another writer has taken over, as far as this can be seen.
  virtual bool is_owner() const = 0;

  /// Where the ranks stage the parts of a save. `number` is new for each save under this lock.
  virtual std::string staging_name(std::uint64_t step, std::uint64_t number) const = 0;
  /// Makes what was staged a checkpoint. `already_exists` if the name is taken by one that is not
  /// superseded; `not_found` too if a rank has abandoned the save. `stage` says how far it has
  /// come, whether this returns or throws.
  virtual Status commit(const StepCommit& commit, CommitStage& stage) const = 0;
  /// Frees what was staged for a save that has failed. What resists is left for the next writer.
  virtual void discard_staged(const std::string& staging) const = 0;

  /// Takes a checkpoint out of sight for good and returns what remove() wants; nothing if it stays.
  /// On a failure the checkpoint is there, whole, or the next writer decides about it.
  virtual Result<std::optional<std::string>> retire(const Retirement& retirement) const = 0;
  /// Frees the space of what retire() has returned.
  virtual Status remove(std::string_view condemned) const = 0;

  /// Writes a catalog anew; null where the store has none.
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
