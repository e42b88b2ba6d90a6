/// \file
/// Consistency of the files and tensors of a manifest, or of a part manifest.
#pragma once

#include <span>
#include <string_view>

#include "checkpoint/manifest/manifest.h"

namespace stoker::internal {

/// `corrupt`, naming `what` and the file or tensor, unless file names are plain and unique, every
/// file has all its checksums, every tensor is inside a file, has the size of its shape and shares
/// no byte with another, and the slices of each tensor agree and do not overlap.
Status check_manifest_entries(std::span<const CheckpointFile> files,
                              std::span<const CheckpointTensor> tensors, std::string_view what);

/// As check_manifest_entries() for further tensors of the same files, which may be slices of
/// `tensors` again.
Status check_duplicate_entries(std::span<const CheckpointFile> files,
                               std::span<const CheckpointTensor> tensors,
                               std::span<const CheckpointTensor> duplicates, std::string_view what);

}  // namespace stoker::internal
