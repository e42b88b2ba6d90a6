/// \file
/// The position of a loader as a checkpoint stores it: as Python's Loader.state_dict().
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "stoker/cursor.h"
#include "stoker/status.h"

namespace stoker::internal {

/// Returns the tagged JSON of a position, given its format_cursor().
Result<std::string> write_cursor_tree(std::string_view cursor);

/// Reads it; nothing for null. `invalid_argument` for the state of another kind of loader. `what`
/// begins messages.
Result<std::optional<Cursor>> read_cursor_tree(std::string_view json, const std::string& what);

}  // namespace stoker::internal
