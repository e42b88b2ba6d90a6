/// \file
/// A JSON object that ends with the checksum of its own text. The last member, on a line of its
/// own, is the XXH3-128 of every byte before that line:
///
///     {
///     "step": 7,
///     "xxh3_128": "0123456789abcdef0123456789abcdef"}
///
/// So the file stays JSON that any tool reads, and no byte of it can change unseen.
#pragma once

#include <string>
#include <string_view>

#include "stoker/status.h"

namespace stoker {

/// Ends `body`, an object's text up to and with the line break after the last comma.
std::string seal_json(std::string body);

/// `corrupt`, naming `what`, unless `text` ends with the line that seal_json() writes and that line
/// fits the text before it. Whether the text is JSON is for a parser to say.
Status check_json_seal(std::string_view text, std::string_view what);

}  // namespace stoker
