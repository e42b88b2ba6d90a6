/// \file
/// A JSON object that ends with the checksum of its own text. The last member, on a separate line,
/// is the XXH3-128 of every byte before that line:
///
///     {
///     "step": 7,
///     "xxh3_128": "0123456789abcdef0123456789abcdef"}
///
/// The file stays JSON that any tool can read, and every changed byte is detected.
#pragma once

#include <string>
#include <string_view>

#include "stoker/status.h"

namespace stoker {

/// Appends the checksum to `body`: an object's text up to the line break after the last comma,
/// inclusive.
std::string seal_json(std::string body);

/// `corrupt`, naming `what`, unless `text` ends with the checksum that seal_json() would write.
/// Does not check that the text is JSON.
Status check_json_seal(std::string_view text, std::string_view what);

}  // namespace stoker
