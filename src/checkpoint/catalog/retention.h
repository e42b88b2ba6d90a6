/// \file
/// Which checkpoints stay. Pure; step_removal.h removes the others.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/catalog/catalog.h"
#include "checkpoint/catalog/notes.h"
#include "checkpoint/manifest/lineage.h"

namespace stoker {

/// Keeps the best by a value that somebody has annotated, or else by the reference value of that
/// name that was saved with it. Without other rules, those that have no such value (yet) stay too.
struct KeepBest {
  enum class Order : std::uint8_t { min, max };
  std::string metric;
  Order order = Order::min;
  std::uint64_t count = 1;
};

/// A checkpoint stays if one of these wants it. Without any, all stay.
struct RetentionRules {
  /// How many of the newest generations of the `family`: first of those that the newest continues,
  /// then of those that the run has left behind by going back.
  std::optional<std::uint64_t> keep_last = {};
  std::optional<std::uint64_t> keep_every = {};  ///< Steps that are multiples of it; 0 is no rule.
  std::optional<KeepBest> keep_best = {};
  /// Names of the checkpoints that are being copied elsewhere, or wait for it.
  std::vector<std::string> replicating = {};
  /// Generations whose data was found to be damaged, which a catalog cannot know. They stay, and no
  /// rule counts them.
  std::set<std::uint64_t> damaged = {};
  /// The run that saves, from its first to its newest checkpoint: what is not related to it,
  /// because another run has left it, stays. Empty: everything is the caller's.
  Lineage family = {};
  /// What was there when this run was restored: of each line the greatest generation. What others
  /// have saved since then stays as well, though it continues the same checkpoint. What was there
  /// already is what going back has abandoned.
  std::map<std::string, std::uint64_t> seen = {};

  bool keep_all() const noexcept { return !keep_last && keep_every.value_or(0) == 0 && !keep_best; }
};

/// What is to go, and why.
struct RetentionChoice {
  std::vector<std::string> removals = {};  ///< Names, oldest first.
  /// The names of those whose manifests have decided it: the removals, and what is kept in their
  /// place. Empty if nothing is to go.
  std::vector<std::string> decisive = {};
};

/// Chooses the checkpoints that are to go.
///
/// Never among them, whatever the rules say: the newest valid one; the newest without new values
/// that are not finite (mark_nonfinite() must have been called); pinned ones; those that are being
/// replicated; the one that `latest` leads to; damaged and unreadable ones, because nobody can tell
/// what they are and their files may be all that is left; those of another `family`. A step whose
/// note is damaged or unreadable counts as pinned. Rules look at the family alone, and at
/// superseded ones as at any other. Those without the metric of `keep_best`, or with one that is
/// not a number, are for the other rules, and stay if there are none; of equal ones the newer is
/// the better.
RetentionChoice choose_retention(const Catalog& catalog, const AllNotes& notes,
                                 const RetentionRules& rules);

/// The removals alone.
inline std::vector<std::string> choose_removals(const Catalog& catalog, const AllNotes& notes,
                                                const RetentionRules& rules) {
  return choose_retention(catalog, notes, rules).removals;
}

/// The values that valid checkpoints have, by name: what `keep_best` could rank by.
std::set<std::string> metrics_of(const Catalog& catalog, const AllNotes& notes);

}  // namespace stoker
