/// \file
/// WebDataset's rules for names: which member belongs to which sample, as which field.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "formats/shard_format.h"
#include "stoker/status.h"

namespace stoker {

/// The most that the names of one sample's fields may take together, with one byte each besides:
/// they are compared with each other, and so kept.
inline constexpr std::size_t kFieldNamesBytesMax = std::size_t{1} << 20;

/// A member's name taken apart; both look into it.
struct MemberName {
  std::string_view key;        ///< Directory and base name up to its first dot.
  std::string_view extension;  ///< All after that dot, dots included; not yet in lower case.
};

/// Exactly webdataset's `^((?:.*/|)[^.]+)[.]([^/]*)$`; nothing for a member that it ignores (no dot
/// in the base name, or nothing before it). Two corners that follow from the expression: a base
/// name that begins with a dot, in a directory without one ("a/.b"), has the directory as its key
/// ("a/"); and "a." has an empty extension.
std::optional<MemberName> split_member_name(std::string_view name) noexcept;

/// Whether webdataset skips the member as metadata: its first component begins and ends with "__".
bool is_metadata_name(std::string_view name) noexcept;

/// Whether a field of that name would collide with what webdataset itself puts into a sample:
/// "__key__", "__url__" and their like.
bool is_reserved_field(std::string_view field) noexcept;

/// Whether the extension is in lower case already. Readers turn ASCII letters into lower case;
/// others stay as they are here, where Python's lower() knows all of Unicode.
bool is_lower_case(std::string_view extension) noexcept;
char to_lower_case(char c) noexcept;

/// What the last part of an extension says about the bytes: text and JSON. Numbers ("cls", "id")
/// are text, as webdataset writes them.
FieldType type_of_extension(std::string_view extension) noexcept;

/// Whether the last part of an extension says that the text is an integer: "cls", "cls2", "index",
/// "inx" and "id", which webdataset decodes so.
bool is_integer_extension(std::string_view extension) noexcept;

/// Whether a sample with that key and those fields reads back as itself. `invalid_argument` says
/// which rule it breaks.
Status check_key(std::string_view key);
Status check_field(std::string_view key, const FieldView& field);

}  // namespace stoker
