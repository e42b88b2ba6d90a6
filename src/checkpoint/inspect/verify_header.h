#pragma once

#include <cstdint>

#include "checkpoint/manifest/manifest.h"
#include "checkpoint/store/open_step.h"

namespace stoker {

/// Whether the safetensors header of file `number`, which has `size_bytes`, tells the same as the
/// manifest about that file: names, types, shapes, places. `corrupt` names the tensor.
Status check_header(StoredFiles& files, std::uint64_t size_bytes,
                    const CheckpointManifest& manifest, std::uint32_t number);

}  // namespace stoker
