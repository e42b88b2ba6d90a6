#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/history.h"
#include "checkpoint/manifest.h"
#include "io/file_ops.h"

namespace stoker {

/// Puts the parts of all ranks, in order, into `manifest`: files, tensors, states. `corrupt` if a
/// rank is missing or two name the same file.
Status merge_parts(CheckpointManifest& manifest, std::span<const CheckpointPart> parts);

struct CommitRequest {
  FileOps& ops;
  std::string directory;  ///< The checkpoints'.
  std::string owner;      ///< The lock holder's directory: the fence.
  std::string staging;    ///< In `owner`: holds every rank's files and part manifest, durable.
  const CheckpointManifest& manifest;
  /// What bears the step's name now and belongs to a run that was rewound.
  const History::Entry* superseded = nullptr;
};

/// How far a commit has come.
enum class CommitStage : std::uint8_t {
  staged,   ///< Nobody can see it. It has failed.
  visible,  ///< It has its name, but whether that survives a power cut is not known.
  durable,  ///< It is committed. `latest` may not lead to it.
  complete,
};

struct CommitResult {
  CommitStage stage = CommitStage::staged;
  Status status;
};

/// Makes the staged files a checkpoint; steps 8 to 12 of the commit (docs/durability.md). Fails
/// with `not_found` if another writer has taken over: it has renamed `owner`; or if a rank has
/// given the save up: it has renamed `staging` (give_up.h).
CommitResult commit_checkpoint(const CommitRequest& request);

}  // namespace stoker
