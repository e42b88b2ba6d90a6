#pragma once

#include <string>

namespace stoker {

/// Returns 32 random hexadecimal digits (128 bits), for names that must be unique.
std::string make_token();

}  // namespace stoker
