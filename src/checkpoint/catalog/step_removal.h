/// \file
/// Removing checkpoints, for the holder of the writer's lock. A checkpoint goes in two parts,
/// because the second takes as long as the filesystem needs to free its blocks, and nobody has to
/// wait for that (docs/durability.md has the steps).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/catalog/catalog.h"
#include "checkpoint/catalog/notes.h"
#include "checkpoint/catalog/retention.h"
#include "checkpoint/store/checkpoint_store.h"

namespace stoker {

/// Takes a checkpoint out of sight for good, unless `note` is not what is said about it any more,
/// or its manifest is not that of `step`: then it has its name back, or never lost it. Returns what
/// CheckpointWriter::remove() wants; nothing if it stays.
///
/// `not_found` if another writer has taken over. On any failure the checkpoint is whole under its
/// own name, or where the next writer finds it.
Result<std::optional<std::string>> retire_checkpoint(const CheckpointWriter& writer,
                                                     const CatalogStep& step,
                                                     const CheckpointNote* note);

struct RetentionReport {
  std::vector<std::string> names = {};      ///< Of the checkpoints that are gone.
  std::vector<std::string> condemned = {};  ///< For CheckpointWriter::remove().
  Status failure = {};  ///< The first one; what has failed is tried again the next time.
};

/// What is to go, and what it was decided from.
struct RemovalDecision {
  Catalog catalog = {};
  AllNotes notes = {};
  std::vector<std::string> names = {};  ///< Of those that are to go, oldest first.
};

/// Chooses what no rule keeps. The manifests of what goes, and of what stays in its place, are
/// those that `catalog` has read itself; what the catalog file says of them is not believed. Those
/// of the newest valid checkpoint and of the newest finite one are read now. What the rules keep
/// anyhow, such as multiples of keep_every, is not read.
Result<RemovalDecision> decide_removals(const CheckpointStore& store, const RetentionRules& rules,
                                        CatalogReader& catalog, NotesReader& notes);

/// Retires what decide_removals() has chosen. Decides anew when a note has changed meanwhile.
RetentionReport retire_unwanted(const CheckpointWriter& writer, const RetentionRules& rules,
                                CatalogReader& catalog, NotesReader& notes);

/// Retires and removes one checkpoint whatever the rules say. False if it is pinned.
Result<bool> remove_checkpoint(const CheckpointWriter& writer, const CatalogStep& step);

}  // namespace stoker
