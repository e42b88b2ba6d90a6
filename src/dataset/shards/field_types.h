/// \file
/// Types of fields in formats whose shards do not store them: the names of fields imply some
/// (ShardFormat::has_name_types), the manifest records those that are different.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "formats/json/strict_json.h"
#include "formats/shard_format.h"
#include "stoker/status.h"
#include "stoker/store.h"

namespace stoker {

/// By the name that a field has in the shards. `bytes`: bytes, or values of different types.
using FieldTypes = std::map<std::string, FieldType, std::less<>>;

/// Samples with more names than this get no types, so that manifests stay small.
inline constexpr std::size_t kTypedFieldsMax = 1024;

/// Adds a value of `type`. Numbers of different types become float64, other mixtures bytes.
void add_field_type(FieldTypes& types, std::string_view name, FieldType type);

/// An object of names and types: {"label": "int64"}.
Json field_types_json(const FieldTypes& types);
/// `corrupt` if it is not an object of text. A type of a later version is read as `bytes`.
Result<FieldTypes> parse_field_types(const JsonView& types);

/// Returns the types that the manifests next to these shards agree on.
FieldTypes read_field_types(ObjectStore& store, std::span<const std::string> paths);

/// Makes a reader that gives fields of `reader` these types. Its split() returns `corrupt` for a
/// field whose bytes are not of its type.
std::unique_ptr<ShardReader> make_typed_reader(std::unique_ptr<ShardReader> reader,
                                               FieldTypes types);

}  // namespace stoker
