#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/manifest/manifest_file.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/manifest/step_summary.h"
#include "checkpoint/store/checkpoint_store.h"

namespace stoker {

/// One checkpoint in a store.
struct CatalogStep {
  std::string name;  ///< Name of its directory: "step-000000001000".
  StepName parsed = {};
  /// 0 if unknown.
  std::uint64_t generation = 0;
  std::shared_ptr<const StepSummary> summary;    ///< Null if its manifest cannot be read.
  Status problem;                                ///< Why summary is null; see is_damage().
  std::shared_ptr<const StepSummary> lost = {};  ///< If summary is null: the last known one.
  bool has_new_nonfinite = false;                ///< Set by mark_nonfinite().
  /// The summary is from the catalog file, and the manifest was not read.
  bool is_unverified = false;

  bool is_valid() const noexcept { return summary != nullptr; }
  bool is_superseded() const noexcept { return parsed.superseded_generation.has_value(); }
};

/// The contents of a store at one moment.
///
/// Thread safety: const methods may be called from any thread.
struct Catalog {
  /// Newest first: by generation; among equal generations what `latest` points to, then by name.
  std::vector<CatalogStep> steps;
  std::string latest;  ///< What `latest` points to; empty if there is no such link.

  const CatalogStep* find(std::string_view name) const noexcept;
  /// Returns the valid step with the greatest generation; null if there is none.
  const CatalogStep* newest() const noexcept;
  /// Returns the newest valid step without new non-finite values; null if there is none.
  const CatalogStep* newest_finite() const noexcept;
};

/// Returns a hint for an error about the missing checkpoint `name`: the newest checkpoint, and the
/// nearest ones by step. "the newest is step-000000000090, the nearest other is step-000000000080"
std::string tell_others(const Catalog& catalog, std::string_view name);

/// Marks the steps in which some tensor has more non-finite values than in the last unmarked step
/// before it, by generation. So a run that has diverged stays marked, and infinities that were
/// there from the beginning, as in a mask, are accepted. The oldest step is never marked. Pure.
void mark_nonfinite(Catalog& catalog);

/// Lists a store repeatedly, and remembers the manifests it has read.
///
/// Thread safety: none.
class CatalogReader {
 public:
  explicit CatalogReader(StoreHandle store) : store_(std::move(store)) {}

  /// What is checked again for known checkpoints.
  enum class Recheck : std::uint8_t {
    manifests,  ///< Inode, size and time of the manifest.
    names,      ///< Name and id only: for the writer, which alone changes checkpoints.
  };

  /// Lists every step with its summary. Reads the manifests that the catalog file does not contain,
  /// but no data, and ignores staging. If steps are removed or renamed meanwhile it starts again;
  /// `unavailable` if that does not end.
  Result<Catalog> list(Recheck recheck = Recheck::manifests);

  /// As list(), for callers that use the newest checkpoint or number the next: the manifests of the
  /// newest and of what `latest` points to were read, not taken from the catalog file.
  Result<Catalog> list_newest(Recheck recheck = Recheck::manifests);

  /// Makes the next list() read the manifest of this checkpoint.
  void forget(const std::string& name);
  /// Makes the next list() read all manifests that were not read yet, and ignore the catalog file.
  void forget_unverified();

  /// The lines of the checkpoints that the last list() has found; for a new catalog file.
  const CatalogLines& lines() const noexcept { return lines_; }
  /// Adds a checkpoint that the caller has just committed, so that its manifest need not be read.
  void learn(const CatalogLine& line);

 private:
  struct Known {
    std::uint64_t id = 0;
    CatalogStep step;  // valid
  };

  Result<Catalog> list_once(Recheck recheck);
  void forget_lines();
  Result<CatalogStep> look_at(const StoredStep& stored, const StepName& parsed);

  StoreHandle store_;
  bool has_read_file_ = false;
  CatalogLines lines_;
  std::set<std::string> unverified_;  // names whose lines are from the catalog file
  std::map<std::string, std::shared_ptr<const StepSummary>> lost_;  // of damaged checkpoints
  std::vector<Known> known_;                                        // by name
};

/// Lists the checkpoints once.
Result<Catalog> list_checkpoints(const CheckpointStore& store);

}  // namespace stoker
