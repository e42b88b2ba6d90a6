/// \file
/// Reading the manifest of a checkpoint's directory, and classifying errors.
#pragma once

#include "checkpoint/manifest/manifest.h"
#include "io/files/file_ops.h"

namespace stoker {

/// Reads the manifest of the checkpoint in the directory `step`.
Result<CheckpointManifest> read_checkpoint_manifest(FileOps& ops, const PathAt& step);

/// Whether the manifest.json in `directory` is that of a dataset (docs/formats/manifest.md). False
/// if it cannot be read.
bool is_dataset(FileOps& ops, const PathAt& directory);

/// Whether the error means wrong or lost bytes, so that another copy may be intact. False for a
/// lack of permissions, descriptors or memory, which says nothing about the bytes.
bool is_damage(const Status& status) noexcept;

/// Whether the error means that something has disappeared: retention has removed it, or a rewound
/// run has renamed it. The caller should list the directory again.
bool is_gone(const Status& status) noexcept;

}  // namespace stoker
