#pragma once

#include <string>

namespace stoker {

/// 32 hexadecimal digits that nobody else has.
std::string make_token();

}  // namespace stoker
