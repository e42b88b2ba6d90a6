#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/names.h"
#include "io/file_ops.h"

namespace stoker {

/// Whether something was there a moment ago and is not any more: removed by retention, renamed by a
/// rewound run. Whoever meets it lists the directory again.
bool is_gone(const Status& status) noexcept;

/// One checkpoint in a directory of checkpoints.
struct CatalogStep {
  std::string name;  ///< Of its directory: "step-000000001000".
  StepName parsed = {};
  /// 0 where nobody can tell any more.
  std::uint64_t generation = 0;
  std::shared_ptr<const CheckpointManifest> manifest;  ///< Null where it cannot be trusted,
  Status damage;                                       ///< and why.
  bool has_new_nonfinite = false;                      ///< mark_nonfinite() says what that is.

  bool is_superseded() const noexcept { return parsed.superseded_generation.has_value(); }
};

/// What a directory of checkpoints held at one moment.
///
/// Thread safety: const methods may be called from any thread.
struct Catalog {
  std::vector<CatalogStep> steps;  ///< The newest first: by generation, then by name.
  std::string latest;              ///< What `latest` points to; empty if there is no such link.

  const CatalogStep* find(std::string_view name) const noexcept;
  /// The greatest generation whose manifest holds; null if there is none.
  const CatalogStep* newest() const noexcept;
};

/// Marks the steps in which some tensor has more values that are not finite than in the last step
/// before it, by generation, that is not marked. So a run that has gone wrong and stays as wrong
/// does not pass for a sound one, and infinities that were there from the beginning, as in a mask,
/// do no harm. The oldest has nothing to be compared with and is not marked. Pure.
void mark_nonfinite(Catalog& catalog);

/// Lists `directory`: every step with its manifest, which is read and checked; no data is. Never
/// looks into staging. Steps that are removed or renamed meanwhile are no failure: it begins anew,
/// and answers `unavailable` only if that has no end.
Result<Catalog> list_checkpoints(FileOps& ops, const std::string& directory);

}  // namespace stoker
