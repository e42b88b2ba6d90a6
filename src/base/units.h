/// \file
/// Sizes, rates and durations as people write them: "200GiB", "1.5GB/s", "30min".
///
/// Parsing is strict and exact. A number is decimal digits with an optional fraction, then at most
/// one space, then a unit, spelled as below. Signs, exponents, hexadecimal, digit separators and
/// anything before or after are refused, and so is what does not fit the result. A fraction is
/// computed in integers and rounded down to the whole byte or nanosecond, so that a limit never
/// comes out larger than it was written ("0.1GB" is 100000000, "1.5KiB" is 1536); a fraction of
/// one byte or one nanosecond is refused, and so is any other that would round to nothing. Every
/// refusal is `invalid_argument`; its message is ASCII, quotes the text and shows accepted ones.
///
///     size      B, KB MB GB TB PB (powers of 1000), KiB MiB GiB TiB PiB (powers of 1024), or none
///     rate      a size with its unit, then "/s"
///     duration  ns, us, ms, s, min, h, d
///
/// Formatting for people ("1.5 GiB") keeps three significant digits. The `_exact` forms keep every
/// digit: what they write, the parser of the same name reads back as the same value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "stoker/status.h"

namespace stoker {

/// Bytes. "K", "M" and their like alone are refused with the two units that may have been meant.
Result<std::uint64_t> parse_bytes(std::string_view text);
/// Bytes per second.
Result<std::uint64_t> parse_rate(std::string_view text);
Result<nanoseconds> parse_duration(std::string_view text);

std::string format_bytes(std::uint64_t bytes);            ///< "1.5 GiB": memory and files.
std::string format_bytes_decimal(std::uint64_t bytes);    ///< "1.61 GB": devices and networks.
std::string format_rate(std::uint64_t bytes_per_second);  ///< "4.97 GB/s", powers of 1000.
std::string format_duration(nanoseconds duration);        ///< "1.23 ms"; negative ones too.
std::string format_count(std::uint64_t count);            ///< "174k", powers of 1000.

std::string format_bytes_exact(std::uint64_t bytes);            ///< "1536", "4KiB", "100MB"
std::string format_rate_exact(std::uint64_t bytes_per_second);  ///< "1536B/s", "100MB/s"
/// "1500us"; negative durations, which no parser accepts, get a minus sign.
std::string format_duration_exact(nanoseconds duration);

/// The rate that `bytes` in `elapsed` come to, rounded down; 0 if no time has passed, and the
/// largest number if the rate does not fit.
std::uint64_t bytes_per_second(std::uint64_t bytes, nanoseconds elapsed) noexcept;

}  // namespace stoker
