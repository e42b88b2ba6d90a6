#pragma once

#include <string>

#include "stoker/status.h"

namespace stoker {

/// `invalid_argument` if a directory to pack and the one for its shards lie one inside of the
/// other, or are the same: shards would become sources, and sources lie among shards.
Status check_apart(const std::string& source, const std::string& destination);

}  // namespace stoker
