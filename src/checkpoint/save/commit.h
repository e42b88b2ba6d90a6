#pragma once

#include <span>

#include "checkpoint/manifest/manifest.h"

namespace stoker {

/// Puts the parts of all ranks, in order, into `manifest`: files, tensors, states. `corrupt` if a
/// rank is missing or two name the same file.
Status merge_parts(CheckpointManifest& manifest, std::span<const CheckpointPart> parts);

/// `invalid_argument` if the slices that all ranks have saved of a tensor leave some of it out,
/// with its name and the gap. For a manifest whose slices do not overlap.
Status check_no_gaps(const CheckpointManifest& manifest);

}  // namespace stoker
