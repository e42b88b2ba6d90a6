#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace stoker {

/// A horizontal bar in eighths of a character: `share` of `width` columns, padded with spaces to
/// all of them. Anything above nothing shows.
std::string format_bar(double share, std::size_t width);

/// One character of eight heights for each value, scaled to the largest.
std::string format_sparkline(std::span<const double> values);

}  // namespace stoker
