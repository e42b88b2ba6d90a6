#pragma once

#include <string>
#include <string_view>

namespace stoker {

/// Quotes `text` as one word for a POSIX shell; returns it unchanged if it needs no quotes.
std::string shell_quote(std::string_view text);

}  // namespace stoker
