/// \file
/// Reading what /proc, /sys and commands print: never throws, never trusts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

std::string_view trim(std::string_view text);

/// The number that is all of `text` but for surrounding blanks; decimal, or hexadecimal after 0x.
std::optional<std::uint64_t> parse_count(std::string_view text);
std::optional<double> parse_decimal(std::string_view text);

/// Views into `text`: pieces between runs of blanks.
std::vector<std::string_view> split_words(std::string_view text);
/// Views into `text`: pieces between single separators, empty ones included.
std::vector<std::string_view> split(std::string_view text, char separator);

/// What follows `key` on the first line that starts with it, trimmed: find_field(meminfo,
/// "MemTotal:") gives "65536 kB".
std::optional<std::string_view> find_field(std::string_view text, std::string_view key);

/// The choice that /sys marks: "always [madvise] never" gives "madvise"; a lone word is chosen.
std::string_view marked_choice(std::string_view choices);

/// Whether `name` can be one component of a path: text from /sys is not let out of its directory.
bool is_plain_name(std::string_view name);

}  // namespace stoker
