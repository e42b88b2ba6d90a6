/// \file
/// Removing checkpoints, for the holder of the writer's lock. A removal has two phases: retire
/// hides the checkpoint, remove frees its blocks. The second may be slow, and callers need not wait
/// for it (the steps are in docs/durability.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/catalog/catalog.h"
#include "checkpoint/catalog/notes.h"
#include "checkpoint/catalog/retention.h"
#include "checkpoint/store/checkpoint_store.h"

namespace stoker {

/// Hides a checkpoint for good and returns the argument for CheckpointWriter::remove(). Returns
/// nothing, and the checkpoint keeps its name, if it is pinned, its note is no longer `note`, or
/// its manifest is not that of `step`.
///
/// `not_found` if another writer has taken over. After any failure the checkpoint is intact, under
/// its own name or where the next writer finds it.
Result<std::optional<std::string>> retire_checkpoint(const CheckpointWriter& writer,
                                                     const CatalogStep& step,
                                                     const CheckpointNote* note);

/// Returns the names of checkpoints on a private disk (manifest/places.h) of which one is the
/// newest that all nodes have: what `latest` leads to, and newer ones. Of a node alone it cannot be
/// known which. Empty for other stores.
std::vector<std::string> find_perhaps_common(const CheckpointStore& store, const Catalog& catalog);

struct RetentionReport {
  std::vector<std::string> names = {};      ///< Names of the retired checkpoints.
  std::vector<std::string> condemned = {};  ///< For CheckpointWriter::remove().
  Status failure = {};                      ///< The first failure; the next retention tries again.
};

/// The checkpoints to remove, and the basis of the decision.
struct RemovalDecision {
  Catalog catalog = {};
  AllNotes notes = {};
  std::vector<std::string> names = {};  ///< Names of the checkpoints to remove, oldest first.
};

/// Chooses the checkpoints that no rule keeps. The manifests of these, and of the checkpoints kept
/// instead, were read by `catalog`, not taken from the catalog file. Those of the newest valid and
/// the newest finite checkpoint are read now. Manifests of checkpoints that stay anyway, such as
/// multiples of keep_every, are not read.
Result<RemovalDecision> decide_removals(const CheckpointStore& store, const RetentionRules& rules,
                                        CatalogReader& catalog, NotesReader& notes);

/// Retires what decide_removals() chooses. Decides again if a note has changed meanwhile.
RetentionReport retire_unwanted(const CheckpointWriter& writer, const RetentionRules& rules,
                                CatalogReader& catalog, NotesReader& notes);

/// Retires and removes one checkpoint, regardless of retention rules. Returns false if it stays, as
/// for retire_checkpoint().
Result<bool> remove_checkpoint(const CheckpointWriter& writer, const CatalogStep& step);

}  // namespace stoker
