/// \file
/// Text of anybody, made fit for one line on a terminal or in JSON.
#pragma once

#include <string>
#include <string_view>

#include "formats/json/json.h"

namespace stoker::cli {

/// Without what a terminal would take for a command: names come from files of anybody.
std::string printable(std::string_view text);

/// One line. Bytes that are not UTF-8 are replaced, for JSON has no others.
std::string to_line(const Json& value);

}  // namespace stoker::cli
