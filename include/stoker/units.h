/// \file
/// Sizes, rates and durations as people write them: "200GiB", "1.5GB/s", "30min".
///
/// Parsing is strict and exact. A number is decimal digits with an optional fraction, then at most
/// one space, then a unit, spelled as below. Signs, exponents, hexadecimal, digit separators, any
/// text before or after, and values that do not fit the result are refused. A fraction is computed
/// in integers and rounded down to a whole byte or nanosecond, so that a limit is never larger than
/// it was written ("0.1GB" is 100000000, "1.5KiB" is 1536). A fraction of one byte or nanosecond is
/// refused, and so is a nonzero value that rounds to zero. Every refusal is `invalid_argument`; its
/// message is ASCII, quotes the text and gives examples of accepted forms.
///
///     size      B, KB MB GB TB PB (powers of 1000), KiB MiB GiB TiB PiB (powers of 1024), or none
///     rate      a size with its unit, then "/s"
///     duration  ns, us, ms, s, min, h, d
///
/// Formatting for people ("1.5 GiB") keeps three significant digits. The `_exact` forms keep every
/// digit: the matching parser reads their output back as the same value.
///
/// Thread safety: every function from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "stoker/api.h"
#include "stoker/status.h"

namespace stoker {

using std::chrono::nanoseconds;

/// Returns bytes. The error for a bare "K", "M" and so on names the two units it may stand for.
STOKER_API Result<std::uint64_t> parse_bytes(std::string_view text);
/// Returns bytes per second.
STOKER_API Result<std::uint64_t> parse_rate(std::string_view text);
STOKER_API Result<nanoseconds> parse_duration(std::string_view text);

/// "1.5 GiB": memory and files.
STOKER_API std::string format_bytes(std::uint64_t bytes);
/// "1.61 GB": devices and networks.
STOKER_API std::string format_bytes_decimal(std::uint64_t bytes);
/// "4.97 GB/s", powers of 1000.
STOKER_API std::string format_rate(std::uint64_t bytes_per_second);
/// "1.23 ms"; may be negative.
STOKER_API std::string format_duration(nanoseconds duration);
/// "174k", powers of 1000.
STOKER_API std::string format_count(std::uint64_t count);

STOKER_API std::string format_bytes_exact(std::uint64_t bytes);  ///< "1536", "4KiB", "100MB"
STOKER_API std::string format_rate_exact(std::uint64_t bytes_per_second);  ///< "1536B/s", "100MB/s"
/// "1500us"; a negative duration, which parse_duration() refuses, gets a minus sign.
STOKER_API std::string format_duration_exact(nanoseconds duration);

/// Returns `bytes` per `elapsed` in bytes per second, rounded down; 0 if `elapsed` is not positive,
/// and UINT64_MAX if the rate does not fit.
STOKER_API std::uint64_t bytes_per_second(std::uint64_t bytes, nanoseconds elapsed) noexcept;

}  // namespace stoker
