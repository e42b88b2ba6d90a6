#pragma once

#include <cstdint>

namespace stoker {

/// Returns the largest multiple of `unit` that is not above `value`.
constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t unit) {
  return value / unit * unit;
}

/// Returns the smallest multiple of `unit` that is not below `value`.
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return round_down(value + unit - 1, unit);
}

}  // namespace stoker
