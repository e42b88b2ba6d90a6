#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <span>

#include "base/unit_tables.h"
#include "stoker/units.h"

namespace stoker {
namespace {

/// Formats three significant digits in the largest unit that leaves at least 1 before the point.
std::string scaled(std::uint64_t value, std::span<const Unit> units, std::string_view gap) {
  std::size_t i = units.size() - 1;
  while (i > 0 && value < units[i].size) --i;
  // The second iteration is for a number that rounds up to the next unit: "1 min", not "60 s".
  for (;; ++i) {
    const double number = static_cast<double>(value) / static_cast<double>(units[i].size);
    const double step = number < 9.995 ? 0.01 : number < 99.95 ? 0.1 : 1;
    const double rounded = std::round(number / step) * step;
    if (i + 1 < units.size() &&
        rounded * static_cast<double>(units[i].size) >= static_cast<double>(units[i + 1].size)) {
      continue;
    }
    std::string text = fmt::format("{:.2f}", rounded);
    text.erase(text.find_last_not_of('0') + 1);  // the point protects the whole digits
    if (text.ends_with('.')) text.pop_back();
    return text.append(gap).append(units[i].name);
  }
}

/// Returns the largest unit that divides `value`.
const Unit& exact_unit(std::uint64_t value, std::span<const Unit> units) {
  std::size_t i = value == 0 ? 0 : units.size() - 1;
  while (value % units[i].size != 0) --i;
  return units[i];
}

std::string exact_bytes(std::uint64_t bytes) {
  const Unit& binary = exact_unit(bytes, kBinaryUnits);
  const Unit& decimal = exact_unit(bytes, kDecimalUnits);
  const Unit& unit = binary.size >= decimal.size ? binary : decimal;
  return fmt::format("{}{}", bytes / unit.size, unit.name);
}

struct Magnitude {
  bool negative;
  std::uint64_t value;
};

/// nanoseconds::min() has no positive counterpart, so the sign is removed in unsigned arithmetic.
Magnitude magnitude_of(nanoseconds duration) {
  const auto bits = static_cast<std::uint64_t>(duration.count());
  return duration.count() < 0 ? Magnitude{true, 0 - bits} : Magnitude{false, bits};
}

}  // namespace

std::string format_bytes(std::uint64_t bytes) {
  return scaled(bytes, kBinaryUnits, " ");
}

std::string format_bytes_decimal(std::uint64_t bytes) {
  return scaled(bytes, kDecimalUnits, " ");
}

std::string format_rate(std::uint64_t bytes_per_second) {
  return scaled(bytes_per_second, kDecimalUnits, " ").append("/s");
}

std::string format_duration(nanoseconds duration) {
  const auto [negative, value] = magnitude_of(duration);
  return fmt::format("{}{}", negative ? "-" : "", scaled(value, kTimeUnits, " "));
}

std::string format_count(std::uint64_t count) {
  return scaled(count, kCountUnits, "");
}

std::string format_bytes_exact(std::uint64_t bytes) {
  std::string text = exact_bytes(bytes);
  if (text.find_first_not_of("0123456789") == text.size() - 1) text.pop_back();  // a lone "B"
  return text;
}

std::string format_rate_exact(std::uint64_t bytes_per_second) {
  return exact_bytes(bytes_per_second).append("/s");
}

std::string format_duration_exact(nanoseconds duration) {
  if (duration == nanoseconds(0)) return "0s";
  const auto [negative, value] = magnitude_of(duration);
  const Unit& unit = exact_unit(value, kTimeUnits);
  return fmt::format("{}{}{}", negative ? "-" : "", value / unit.size, unit.name);
}

std::uint64_t bytes_per_second(std::uint64_t bytes, nanoseconds elapsed) noexcept {
  if (elapsed <= nanoseconds(0)) return 0;
  __extension__ using Wide = unsigned __int128;  // bytes * 1e9 needs 94 bits
  const Wide rate = Wide{bytes} * 1'000'000'000 / static_cast<std::uint64_t>(elapsed.count());
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  return rate > kMax ? kMax : static_cast<std::uint64_t>(rate);
}

}  // namespace stoker
