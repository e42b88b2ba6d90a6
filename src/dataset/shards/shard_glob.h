#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stoker/status.h"
#include "store/object_store.h"

namespace stoker::internal {

/// Whether a name has a character that a pattern gives a meaning: "*", "?" or "[".
bool is_glob(std::string_view name) noexcept;

/// The keys that a pattern matches, in bytewise order, as glob(3) finds them with GLOB_ERR: "*",
/// "?" and "[...]" match within one name, and a leading period only if it is written; a backslash
/// takes a character's meaning away; what cannot be listed is an error. Names that a folder lists
/// match whether or not they lead anywhere. `not_found` if nothing matches.
Result<std::vector<std::string>> match_glob(ObjectStore& store, const std::string& pattern);

}  // namespace stoker::internal
