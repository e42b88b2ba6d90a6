/// \file
/// Text of anybody, made fit for one line on a terminal or in JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace stoker::cli {

/// Without what a terminal would take for a command: names come from files of anybody.
std::string printable(std::string_view text);

/// One line. Bytes that are not UTF-8 are replaced, for JSON has no others.
std::string to_line(const nlohmann::ordered_json& value);

}  // namespace stoker::cli
