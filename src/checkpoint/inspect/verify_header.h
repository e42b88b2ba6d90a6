#pragma once

#include <cstdint>

#include "checkpoint/manifest/manifest.h"
#include "io/files/file.h"

namespace stoker {

/// Whether the safetensors header of an open file tells the same as the manifest about that file:
/// names, types, shapes, places. `corrupt` names the tensor.
Status check_header(const File& file, const CheckpointManifest& manifest, std::uint32_t number);

}  // namespace stoker
