/// \file
/// The part of TOML that the device catalogue and workload files need.
///
///     # a comment
///     gpus = 1000              a number: kept as text, without the underscores
///     sample = "130KB"         a string on one line
///     [cache]                  a table
///     [[ssd]]                  an array of tables: may come again
///
/// Keys and names of tables are bare: letters, digits, "_" and "-". A string may have the escapes
/// \" and \\, and no tabs. Everything else of TOML (dotted and quoted keys, arrays, inline tables,
/// dates, multi-line and literal strings) is refused with a message that says so.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/status.h"

namespace stoker::plan {

inline constexpr std::size_t kTomlBytesMax = std::size_t{1} << 20;

struct TomlEntry {
  std::string key;
  std::string value;  ///< A string without its quotes, or a number or boolean as written.
  bool is_string = false;
  std::size_t line = 0;  ///< From 1.
};

struct TomlTable {
  std::string name;         ///< Empty for what precedes the first table.
  bool is_element = false;  ///< [[name]], not [name].
  std::size_t line = 0;
  std::vector<TomlEntry> entries;

  const TomlEntry* find(std::string_view key) const noexcept;
};

/// Returns the tables in the order of the text; the first is the nameless one. `what` names the
/// text in messages. `invalid_argument`: "WHAT, line N: ...", also for a duplicate key or [name],
/// a text that is not UTF-8, and one of more than kTomlBytesMax.
Result<std::vector<TomlTable>> parse_toml(std::string_view text, std::string_view what);

}  // namespace stoker::plan
