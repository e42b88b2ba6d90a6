#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "stoker/status.h"

namespace stoker {

/// Returns two lower-case digits for each byte, first byte first.
std::string format_hex(std::span<const std::byte> bytes);

/// Fills `out` from exactly two lower-case digits for each of its bytes. On any other text, upper
/// case included, returns `invalid_argument` and may leave `out` partly written.
Status parse_hex(std::string_view text, std::span<std::byte> out);

}  // namespace stoker
