#pragma once

#include <string>
#include <string_view>

namespace stoker {

/// `text` as one word of a POSIX shell; left alone when nothing in it is special.
std::string shell_quote(std::string_view text);

}  // namespace stoker
