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

/// "bytes", "text", "json", "int64", ...
std::string_view field_type_name(FieldType type) noexcept;

/// {"size_bytes", "type"}, and "dtype" and "shape" of arrays.
Json describe_field(const FieldView& field);

/// The contents of a small field: a string, a number or a list of them, JSON as it is. Of a field
/// that is large, or bytes that are nothing of the kind, describe_field().
Json field_value(const FieldView& field);

}  // namespace stoker::cli
