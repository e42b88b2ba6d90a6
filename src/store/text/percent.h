/// \file
/// Percent-encoding of RFC 3986, as Amazon S3 wants it in paths and queries.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace stoker {

enum class Slashes : bool { encode, keep };

/// Encodes every byte that is not a letter, a digit or one of "-._~", in upper-case hex.
std::string percent_encode(std::string_view text, Slashes slashes = Slashes::encode);

/// Returns the bytes, or nothing if a "%" is not followed by two hex digits. "+" stays "+".
std::optional<std::string> percent_decode(std::string_view text);

}  // namespace stoker
