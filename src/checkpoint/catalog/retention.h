/// \file
/// The choice of the checkpoints to keep. Pure; step_removal.h removes the others.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/catalog/catalog.h"
#include "checkpoint/catalog/notes.h"
#include "checkpoint/manifest/lineage.h"
#include "stoker/save.h"

namespace stoker {

/// A checkpoint stays if any rule keeps it. Without rules all stay.
struct RetentionRules {
  /// Number of newest checkpoints of the `family` to keep: first those that the newest continues,
  /// then those that the run has abandoned by rewinding.
  std::optional<std::uint64_t> keep_last = {};
  std::optional<std::uint64_t> keep_every = {};  ///< Keep multiples of this step; 0: no rule.
  std::optional<KeepBest> keep_best = {};
  /// Values for `keep_best` from elsewhere, by generation and line: for checkpoints whose note has
  /// none.
  std::map<std::pair<std::uint64_t, std::string>, double> values = {};
  /// Names of checkpoints that are being copied elsewhere, or are queued for it.
  std::vector<std::string> replicating = {};
  /// Generations whose data was found damaged, which a catalog cannot know. They stay, and no rule
  /// counts them.
  std::set<std::uint64_t> damaged = {};
  /// Lineage of the saving run, including its newest checkpoint. Unrelated checkpoints, left by
  /// other runs, stay. Empty: all checkpoints belong to the caller.
  Lineage family = {};
  /// The greatest generation of each line when this run was restored. Related checkpoints up to it
  /// were abandoned by rewinding and belong to the family; later ones were saved by other runs and
  /// stay.
  std::map<std::string, std::uint64_t> seen = {};

  bool keep_all() const noexcept { return !keep_last && keep_every.value_or(0) == 0 && !keep_best; }
};

/// The checkpoints to remove, and those on which that depends.
struct RetentionChoice {
  std::vector<std::string> removals = {};  ///< Names, oldest first.
  /// Names of the checkpoints whose manifests have decided the choice: the removals, and those kept
  /// instead. Empty if there are no removals.
  std::vector<std::string> decisive = {};
};

/// Chooses the checkpoints to remove.
///
/// Regardless of the rules these stay: the newest valid checkpoint; the newest one without new
/// non-finite values, of all and of the family (mark_nonfinite() must have been called); pinned
/// ones; those being replicated; the one that `latest` points to; damaged and unreadable ones,
/// because their files may be all that is left; those of another family. A step with a damaged or
/// unreadable note counts as pinned. The rules apply to the family only, and to superseded
/// checkpoints as to any other. `keep_best` skips checkpoints without the metric or with NaN: the
/// other rules decide about them, and they stay if there are none. Of equal values the newer is
/// better.
RetentionChoice choose_retention(const Catalog& catalog, const AllNotes& notes,
                                 const RetentionRules& rules);

/// Returns the removals only.
inline std::vector<std::string> choose_removals(const Catalog& catalog, const AllNotes& notes,
                                                const RetentionRules& rules) {
  return choose_retention(catalog, notes, rules).removals;
}

/// Returns the names of all values of valid checkpoints, by which `keep_best` could rank.
std::set<std::string> metrics_of(const Catalog& catalog, const AllNotes& notes);

}  // namespace stoker
