/// \file
/// PAX extended headers: records "LENGTH KEYWORD=VALUE\n". A reader needs two of the keywords.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "stoker/status.h"

namespace stoker {

/// The values of an `x` header for the next member. `path` refers to the parsed bytes.
struct PaxOverrides {
  std::optional<std::string_view> path;
  std::optional<std::uint64_t> size_bytes;
};

/// Parses the `body` of an `x` header at `offset_bytes` of its shard. `corrupt` unless every byte
/// belongs to a well-formed record. Sparse files and other GNU extensions that change the meaning
/// of a member are `unsupported`; all other keywords are ignored.
Result<PaxOverrides> parse_pax(std::span<const std::byte> body, std::uint64_t offset_bytes);

/// Appends one record.
void append_pax_record(std::string_view keyword, std::string_view value, std::string& out);

}  // namespace stoker
