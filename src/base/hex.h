#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "stoker/status.h"

namespace stoker {

/// Two lower-case digits for each byte, first byte first.
std::string format_hex(std::span<const std::byte> bytes);

/// Fills `out` from exactly two digits for each of its bytes. One value has one text, so upper case
/// is refused like any other character: `invalid_argument`, with `out` partly written.
Status parse_hex(std::string_view text, std::span<std::byte> out);

}  // namespace stoker
