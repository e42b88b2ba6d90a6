#pragma once

#include <cstddef>
#include <string>

#include "io/files/path_at.h"
#include "stoker/status.h"

namespace stoker {

/// `invalid_argument` if a directory to pack and the one for its shards lie one inside of the
/// other, or are the same: shards would become sources, and sources lie among shards.
Status check_apart(const std::string& source, const std::string& destination);

/// All of a small file that pack itself has written: its plan, what it knows of a shard. Below a
/// root no link is followed. `unsupported` if it is larger than `size_max`.
Result<std::string> read_own_file(const PathAt& path, std::size_t size_max);

}  // namespace stoker
