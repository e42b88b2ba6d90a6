/// \file
/// What holds between the files and the tensors of a manifest, or of a part of one.
#pragma once

#include <span>
#include <string_view>

#include "checkpoint/manifest/manifest.h"

namespace stoker::internal {

/// `corrupt`, naming `what` and the file or tensor, unless names are plain and come once, every
/// file has its checksums, every tensor lies in a file and has the bytes of its shape, and the
/// slices of one tensor agree and do not overlap.
Status check_manifest_entries(std::span<const CheckpointFile> files,
                              std::span<const CheckpointTensor> tensors, std::string_view what);

}  // namespace stoker::internal
