#pragma once

#include <cstdint>

#include "checkpoint/manifest/manifest.h"
#include "checkpoint/store/open_step.h"

namespace stoker {

/// Checks that the safetensors header of file `number`, which has `size_bytes`, agrees with the
/// manifest: names, types, shapes and offsets. `corrupt`, naming the tensor, if it does not.
Status check_header(StoredFiles& files, std::uint64_t size_bytes,
                    const CheckpointManifest& manifest, std::uint32_t number);

}  // namespace stoker
