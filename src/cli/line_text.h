/// \file
/// Makes untrusted text safe for one line on a terminal or in JSON.
#pragma once

#include <string>
#include <string_view>

#include "formats/json/json.h"

namespace stoker::cli {

/// Replaces control characters, which a terminal might interpret, and invalid UTF-8 by '?'.
std::string printable(std::string_view text);

/// Returns one line of JSON. Bytes that are not UTF-8 are replaced by U+FFFD.
std::string to_line(const Json& value);

}  // namespace stoker::cli
