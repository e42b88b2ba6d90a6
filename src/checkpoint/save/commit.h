#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/directory/catalog.h"
#include "checkpoint/directory/owner_directory.h"
#include "checkpoint/manifest/manifest.h"

namespace stoker {

/// Puts the parts of all ranks, in order, into `manifest`: files, tensors, states. `corrupt` if a
/// rank is missing or two name the same file.
Status merge_parts(CheckpointManifest& manifest, std::span<const CheckpointPart> parts);

/// `invalid_argument` if the slices that all ranks have saved of a tensor leave some of it out,
/// with its name and the gap. For a manifest whose slices do not overlap.
Status check_no_gaps(const CheckpointManifest& manifest);

struct CommitRequest {
  const OwnerDirectory& owner;  ///< The fence.
  std::string staging;  ///< In the owner's: holds every rank's files and part manifest, durable.
  const CheckpointManifest& manifest;
  /// What bears the step's name now and belongs to a run that was rewound.
  const CatalogStep* superseded = nullptr;
};

/// How far a commit has come.
enum class CommitStage : std::uint8_t {
  staged,   ///< Nobody can see it. It has failed.
  visible,  ///< It has its name, or may have; whether that survives a power cut is not known.
  durable,  ///< It is committed. `latest` may not lead to it.
  complete,
};

/// Makes the staged files a checkpoint; steps 8 to 12 of the commit (docs/durability.md). Fails
/// with `not_found` if another writer has taken over: the owner's directory is gone; or if a rank
/// has abandoned the save: it has renamed `staging` (abandon_save.h). `stage` says how far it has
/// come, whether it returns or throws.
Status commit_checkpoint(const CommitRequest& request, CommitStage& stage);

}  // namespace stoker
