/// \file
/// The manifest in a checkpoint's directory, and what it means that it cannot be had.
#pragma once

#include "checkpoint/manifest/manifest.h"
#include "io/files/file_ops.h"

namespace stoker {

/// The manifest of the checkpoint in the directory `step`.
Result<CheckpointManifest> read_checkpoint_manifest(FileOps& ops, const PathAt& step);

/// Whether the manifest.json in `directory` is that of a dataset (docs/formats/manifest.md), and so
/// the directory has nothing to do with checkpoints. False if it cannot be read.
bool is_dataset(FileOps& ops, const PathAt& directory);

/// Whether bytes are wrong, or lost by the medium: another copy may be whole. A lack of rights,
/// descriptors or memory is none: it says nothing about the bytes.
bool is_damage(const Status& status) noexcept;

/// Whether something was there a moment ago and is not any more: removed by retention, renamed by a
/// rewound run. Whoever meets it lists the directory again.
bool is_gone(const Status& status) noexcept;

}  // namespace stoker
