/// \file
/// Parsers for the output of /proc, /sys and commands. They accept any bytes and report no errors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

std::string_view trim(std::string_view text);

/// Parses a number, decimal or hexadecimal after 0x, with optional surrounding blanks; nullopt for
/// any other text.
std::optional<std::uint64_t> parse_count(std::string_view text);
std::optional<double> parse_decimal(std::string_view text);

/// Splits at runs of blanks. Returns views into `text`.
std::vector<std::string_view> split_words(std::string_view text);
/// Splits at each separator and keeps empty pieces. Returns views into `text`.
std::vector<std::string_view> split(std::string_view text, char separator);

/// Returns the rest of the first line that starts with `key`, trimmed: find_field(meminfo,
/// "MemTotal:") gives "65536 kB".
std::optional<std::string_view> find_field(std::string_view text, std::string_view key);

/// Returns the choice in brackets: "always [madvise] never" gives "madvise". Without brackets,
/// returns the whole text, trimmed.
std::string_view marked_choice(std::string_view choices);

/// Whether `name` is a single path component, so that text from /sys cannot lead out of a
/// directory.
bool is_plain_name(std::string_view name);

}  // namespace stoker
