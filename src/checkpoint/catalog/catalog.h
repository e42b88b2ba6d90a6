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
  std::string name;  ///< Of its directory: "step-000000001000".
  StepName parsed = {};
  /// 0 where nobody can tell any more.
  std::uint64_t generation = 0;
  std::shared_ptr<const StepSummary> summary;    ///< Null where its manifest cannot be had,
  Status problem;                                ///< and why; is_damage() says of which kind.
  std::shared_ptr<const StepSummary> lost = {};  ///< Of one without: what the catalog file knows.
  bool has_new_nonfinite = false;                ///< mark_nonfinite() says what that is.
  /// The summary is what the catalog file says, and its manifest was not read.
  bool is_hearsay = false;

  bool is_valid() const noexcept { return summary != nullptr; }
  bool is_superseded() const noexcept { return parsed.superseded_generation.has_value(); }
};

/// What a store held at one moment.
///
/// Thread safety: const methods may be called from any thread.
struct Catalog {
  /// The newest first: by generation; of equal ones what `latest` leads to, then by name.
  std::vector<CatalogStep> steps;
  std::string latest;  ///< What `latest` points to; empty if there is no such link.

  const CatalogStep* find(std::string_view name) const noexcept;
  /// The greatest generation of the valid ones; null if there is none.
  const CatalogStep* newest() const noexcept;
  /// The same of those that brought no new values that are not finite.
  const CatalogStep* newest_finite() const noexcept;
};

/// Some of the checkpoints there are, for whoever has asked for one that is not there: the nearest
/// by number to `name`, and the newest. "the newest is step-000000000090, the nearest other is
/// step-000000000080"
std::string tell_others(const Catalog& catalog, std::string_view name);

/// Marks the steps in which some tensor has more values that are not finite than in the last step
/// before it, by generation, that is not marked. So a run that has gone wrong and stays as wrong
/// does not pass for a sound one, and infinities that were there from the beginning, as in a mask,
/// do no harm. The oldest has nothing to be compared with and is not marked. Pure.
void mark_nonfinite(Catalog& catalog);

/// Lists a store again and again, and remembers what it has read of its checkpoints.
///
/// Thread safety: none.
class CatalogReader {
 public:
  explicit CatalogReader(StoreHandle store) : store_(std::move(store)) {}

  /// How much is taken for granted.
  enum class Recheck : std::uint8_t {
    manifests,  ///< Nothing but that a manifest with the same inode, size and time is the same.
    names,      ///< That a checkpoint of the same name and id is: for the writer, who changes them.
  };

  /// Every step with its summary; manifests that the catalog file does not know are read. No data
  /// is. Never looks into staging. Steps that are removed or renamed meanwhile are no failure: it
  /// begins anew, and answers `unavailable` only if that has no end.
  Result<Catalog> list(Recheck recheck = Recheck::manifests);

  /// The same, for whoever takes the newest or numbers the next: the manifests of the newest and of
  /// what `latest` leads to were read. What the catalog file says is not believed of these.
  Result<Catalog> list_newest(Recheck recheck = Recheck::manifests);

  /// Has the next list() read the manifest of this checkpoint, whatever is known of it.
  void forget(const std::string& name);
  /// Has it read all manifests that it has not read itself: the catalog file is not believed.
  void forget_hearsay();

  /// What is known of the checkpoints that the last list() has found; for a new catalog file.
  const CatalogLines& lines() const noexcept { return lines_; }
  /// Of a checkpoint that the caller has just committed: its manifest need not be read.
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
  std::set<std::string> hearsay_;  // names whose lines are from the catalog file
  std::map<std::string, std::shared_ptr<const StepSummary>> lost_;  // of those that are damaged
  std::vector<Known> known_;                                        // by name
};

/// Lists the checkpoints once.
Result<Catalog> list_checkpoints(const CheckpointStore& store);

}  // namespace stoker
