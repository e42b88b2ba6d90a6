#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace stoker {

/// Returns a horizontal bar in eighths of a character: `share` of `width` columns, padded with
/// spaces to `width`. Any share above 0 is visible.
std::string format_bar(double share, std::size_t width);

/// Returns one character of eight heights for each value, scaled to the largest.
std::string format_sparkline(std::span<const double> values);

}  // namespace stoker
