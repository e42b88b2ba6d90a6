/// \file
/// Samples and their fields as text and JSON, for the commands that print them.
#pragma once

#include <string>
#include <string_view>

#include "formats/json/json.h"
#include "formats/shard_format.h"

namespace stoker::cli {

/// Fields up to this size are shown with their contents.
inline constexpr std::size_t kSmallFieldBytes = 64 << 10;

/// Returns "bytes", "text", "json", "int64", ...
std::string_view field_type_name(FieldType type) noexcept;

/// Returns {"size_bytes", "type"}, and "dtype" and "shape" for arrays.
Json describe_field(const FieldView& field);

/// Returns the contents of a small field: a string, a number or a list of numbers, or parsed JSON.
/// For a large field, bytes or an array: describe_field().
Json field_value(const FieldView& field);

}  // namespace stoker::cli
