/// \file
/// Quantities as people write and read them, each with its unit.
///
///     number   12, 0.5, 70e9, 2M (k, M, G, T: powers of 1000)
///     share    95%
///     bytes    130KB, 4MiB, 114660.07B: a mean may have a fraction, and kB is KB
///     rate     6.5GB/s
///     time     200ms, 2h (ns, us, ms, s, min, h, d)
///     often    48/d, 3500/s (s, min, h, d)
///     money    $25.60 or 25.60USD; a price of time: $3/h or 3USD/h
///     compute  989TFLOP/s
///     price    $0.023/GiB or 21USD/TB: of bytes
#pragma once

#include <string>
#include <string_view>

#include "stoker/quantity.h"
#include "stoker/status.h"

namespace stoker::plan {

/// In every output, because half of the world means the other one.
inline constexpr std::string_view kUnitsNote = "GB = 10^9 bytes, GiB = 2^30 bytes";

/// Returns the number in base units: bytes, seconds, dollars, operations, one. `invalid_argument`
/// says what is wrong, and if the text is another kind of quantity, which. Unlike stoker/units.h,
/// which counts whole bytes and nanoseconds, it takes any number that a double can hold.
Result<double> parse_quantity(std::string_view text, Unit unit);

/// "1.3312 GB/s (1.2398 GiB/s)", "10,240/s", "86.4 %": five significant digits, seven of seconds.
std::string format_quantity(double count, Unit unit);
/// The same without what is in parentheses, for formulas.
std::string format_quantity_short(double count, Unit unit);

/// "B/s", "s", "USD": what the numbers in JSON count.
std::string_view unit_symbol(Unit unit) noexcept;
/// Returns a text of the user in a form fit for a message: ASCII, and not longer than a line.
std::string quotable(std::string_view text);

/// "RATE": what help texts call a value of this unit.
std::string_view unit_name(Unit unit) noexcept;
/// "6.5GB/s"
std::string_view unit_examples(Unit unit) noexcept;
/// "a rate of bytes, like 6.5GB/s": what an option of this unit takes.
std::string unit_example(Unit unit);

}  // namespace stoker::plan
