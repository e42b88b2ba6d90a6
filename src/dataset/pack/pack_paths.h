#pragma once

#include <cstddef>
#include <string>

#include "io/files/path_at.h"
#include "stoker/status.h"

namespace stoker {

/// Where convert() puts decompressed tars, below the destination's `.stoker`.
inline constexpr const char* kInflatedName = "inflated";

/// `invalid_argument` if the directory to pack and the one for its shards are the same, or one
/// contains the other: shards would become sources, or sources would be among shards.
Status check_apart(const std::string& source, const std::string& destination);

/// Reads a whole small file that pack itself has written: its plan, or a part. Below a root no link
/// is followed. `unsupported` if it is larger than `size_max`.
Result<std::string> read_own_file(const PathAt& path, std::size_t size_max);

}  // namespace stoker
