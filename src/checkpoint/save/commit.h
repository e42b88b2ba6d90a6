#pragma once

#include <vector>

#include "checkpoint/manifest/manifest.h"

namespace stoker {

/// Adds the files, tensors and states of all ranks, in rank order, to `manifest`, whose places are
/// set. What ranks of several places have stored becomes a tensor and its duplicates. `corrupt` if
/// a rank is missing or two ranks name the same file; `invalid_argument`, naming the tensor and
/// both ranks, if a copy differs from what is stored.
Status merge_parts(CheckpointManifest& manifest, std::vector<CheckpointPart> parts);

/// `invalid_argument`, naming the tensor and the gap, if the slices of all ranks do not cover a
/// tensor. For a manifest whose slices do not overlap.
Status check_no_gaps(const CheckpointManifest& manifest);

}  // namespace stoker
