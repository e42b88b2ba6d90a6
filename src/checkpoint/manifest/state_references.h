/// \file
/// What the trees of a manifest say about its tensors.
#pragma once

#include <span>

#include "checkpoint/manifest/manifest.h"
#include "formats/json/strict_json.h"

namespace stoker::internal {

/// `corrupt`, naming the place, unless every reference in "state" and "cursor" of the manifest
/// `root` leads to a tensor that is stored whole, and has the elements that the reference says.
/// Whoever restores it makes room by what the reference says, and reads what is stored. Only a
/// slice may refer to a tensor that is not there: one without elements is not stored.
Status check_references(const JsonView& root, std::span<const CheckpointTensor> tensors);

}  // namespace stoker::internal
