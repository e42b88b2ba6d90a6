/// \file
/// PAX extended headers: records "LENGTH KEYWORD=VALUE\n", of which a reader needs two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "stoker/status.h"

namespace stoker {

/// What an `x` header changes about the next member. `path` looks into the parsed bytes.
struct PaxOverrides {
  std::optional<std::string_view> path;
  std::optional<std::uint64_t> size_bytes;
};

/// Reads the `body` of an `x` header that begins at `offset_bytes` of its shard. Every byte belongs
/// to a well-formed record, or it is `corrupt`. Sparse files and other GNU extensions that change
/// what a member means are `unsupported`; all other keywords are ignored.
Result<PaxOverrides> parse_pax(std::span<const std::byte> body, std::uint64_t offset_bytes);

/// Appends one record.
void append_pax_record(std::string_view keyword, std::string_view value, std::string& out);

}  // namespace stoker
