#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stoker/status.h"
#include "stoker/store.h"

namespace stoker::internal {

/// Whether a name has a wildcard: "*", "?" or "[".
bool is_glob(std::string_view name) noexcept;

/// Returns the keys that a pattern matches, in bytewise order, as glob(3) does with GLOB_ERR: "*",
/// "?" and "[...]" match within one name, and a leading period only literally; a backslash escapes
/// a character; a folder that cannot be listed is an error. Listed names match even if they are
/// dangling links. `not_found` if nothing matches.
Result<std::vector<std::string>> match_glob(ObjectStore& store, const std::string& pattern);

}  // namespace stoker::internal
