/// \file
/// References to tensors in the trees of a manifest.
#pragma once

#include <cstdint>
#include <span>

#include "checkpoint/manifest/manifest.h"
#include "formats/json/strict_json.h"

namespace stoker::internal {

/// `corrupt`, naming the place, unless every reference in `trees`, which are the elements of
/// "state", and in "cursor" of the manifest `root` names a tensor that is stored completely, with
/// elements of the type in the reference: a restore allocates memory by the reference and then
/// reads what is stored. Only a "!slice" may refer to an incomplete or missing tensor: a slice
/// without elements is not stored. A name in the tree of a rank is that of the rank's own tensor,
/// rank_tensor_name(), or else of a shared one.
Status check_references(const JsonView& root, std::span<const Json* const> trees,
                        std::span<const CheckpointTensor> tensors, std::uint32_t world_size);

}  // namespace stoker::internal
