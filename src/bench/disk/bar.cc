#include "bench/disk/bar.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace stoker {
namespace {

constexpr std::array<std::string_view, 8> kEighths = {"▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
constexpr std::array<std::string_view, 8> kHeights = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

}  // namespace

std::string format_bar(double share, std::size_t width) {
  const double clamped = std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0.0;
  auto eighths = static_cast<std::size_t>(std::lround(clamped * 8 * static_cast<double>(width)));
  if (clamped > 0) eighths = std::max<std::size_t>(eighths, 1);
  std::string bar;
  for (std::size_t column = 0; column < width; ++column) {
    const std::size_t here = std::min<std::size_t>(eighths, 8);
    bar += here == 0 ? " " : kEighths[here - 1];
    eighths -= here;
  }
  return bar;
}

std::string format_sparkline(std::span<const double> values) {
  if (values.empty()) return "";
  const double top = *std::max_element(values.begin(), values.end());
  std::string line;
  for (const double value : values) {
    const double share = top > 0 ? std::clamp(value / top, 0.0, 1.0) : 0;
    line += kHeights[static_cast<std::size_t>(std::lround(share * 7))];
  }
  return line;
}

}  // namespace stoker
