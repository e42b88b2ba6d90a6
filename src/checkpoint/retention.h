/// \file
/// Which checkpoints stay. Pure; step_removal.h removes the others.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/catalog.h"
#include "checkpoint/notes.h"

namespace stoker {

/// Keeps the best by a value that somebody has annotated.
struct KeepBest {
  enum class Order : std::uint8_t { min, max };
  std::string metric;
  Order order = Order::min;
  std::uint64_t count = 1;
};

/// A checkpoint stays if one of these wants it. Without any, all stay.
struct RetentionRules {
  std::optional<std::uint64_t> keep_last = {};   ///< How many of the newest generations.
  std::optional<std::uint64_t> keep_every = {};  ///< Steps that are multiples of it; 0 is no rule.
  std::optional<KeepBest> keep_best = {};
  /// Names of the checkpoints that are being copied elsewhere, or wait for it.
  std::vector<std::string> replicating = {};

  bool keep_all() const noexcept { return !keep_last && keep_every.value_or(0) == 0 && !keep_best; }
};

/// The names of the checkpoints that are to go, oldest first.
///
/// Never among them, whatever the rules say: the newest valid one; the newest without new values
/// that are not finite (mark_nonfinite() must have been called); pinned ones; those that are being
/// replicated; the one that `latest` leads to; damaged and unreadable ones, because nobody can tell
/// what they are and their files may be all that is left. A step whose note is damaged or
/// unreadable counts as pinned. Superseded ones are kept by no rule. `keep_best` ranks by
/// annotations alone: those without the metric, or with one that is not a number, are for the other
/// rules; of equal ones the newer is the better.
std::vector<std::string> choose_removals(const Catalog& catalog, const AllNotes& notes,
                                         const RetentionRules& rules);

}  // namespace stoker
