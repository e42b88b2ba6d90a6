#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace stoker {

struct Unit {
  std::string_view name;
  std::uint64_t size;  ///< In bytes, nanoseconds or ones.
};

// Each table is in ascending order: formatting searches for the largest unit that fits.

inline constexpr std::array kBinaryUnits = {
    Unit{"B", 1},
    Unit{"KiB", std::uint64_t{1} << 10},
    Unit{"MiB", std::uint64_t{1} << 20},
    Unit{"GiB", std::uint64_t{1} << 30},
    Unit{"TiB", std::uint64_t{1} << 40},
    Unit{"PiB", std::uint64_t{1} << 50},
};

inline constexpr std::array kDecimalUnits = {
    Unit{"B", 1},
    Unit{"KB", 1'000},
    Unit{"MB", 1'000'000},
    Unit{"GB", 1'000'000'000},
    Unit{"TB", 1'000'000'000'000},
    Unit{"PB", 1'000'000'000'000'000},
};

inline constexpr std::array kTimeUnits = {
    Unit{"ns", 1},
    Unit{"us", 1'000},
    Unit{"ms", 1'000'000},
    Unit{"s", 1'000'000'000},
    Unit{"min", 60'000'000'000},
    Unit{"h", 3'600'000'000'000},
    Unit{"d", 86'400'000'000'000},
};

inline constexpr std::array kCountUnits = {
    Unit{"", 1},
    Unit{"k", 1'000},
    Unit{"M", 1'000'000},
    Unit{"G", 1'000'000'000},
    Unit{"T", 1'000'000'000'000},
    Unit{"P", 1'000'000'000'000'000},
    Unit{"E", 1'000'000'000'000'000'000},
};

}  // namespace stoker
