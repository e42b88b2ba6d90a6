/// \file
/// WebDataset's naming rules: which sample and field a member belongs to.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "formats/shard_format.h"
#include "stoker/status.h"

namespace stoker {

/// Limit of the total size of the names of one sample's fields, plus one byte each: all are kept in
/// memory to find duplicates.
inline constexpr std::size_t kFieldNamesBytesMax = std::size_t{1} << 20;

/// The parts of a member's name; both refer to it.
struct MemberName {
  std::string_view key;        ///< Directory and base name up to its first dot.
  std::string_view extension;  ///< All after that dot, including dots; not yet in lower case.
};

/// Exactly webdataset's `^((?:.*/|)[^.]+)[.]([^/]*)$`; nothing for a member that it ignores (no dot
/// in the base name, or nothing before it). Two corner cases follow from the expression: a base
/// name that begins with a dot, in a directory without one ("a/.b"), has the directory as its key
/// ("a/"); and "a." has an empty extension.
std::optional<MemberName> split_member_name(std::string_view name) noexcept;

/// Whether webdataset skips the member as metadata: its first path component begins and ends with
/// "__".
bool is_metadata_name(std::string_view name) noexcept;

/// Whether a field with this name would collide with those that webdataset adds to a sample, such
/// as "__key__" and "__url__".
bool is_reserved_field(std::string_view field) noexcept;

/// Whether the extension has no upper-case ASCII letters. Readers convert ASCII letters to lower
/// case here; Python's lower() converts all of Unicode.
bool is_lower_case(std::string_view extension) noexcept;
char to_lower_case(char c) noexcept;

/// Returns the type that the last part of an extension implies: text, JSON or bytes. Numbers
/// ("cls", "id") are text, as webdataset writes them.
FieldType type_of_extension(std::string_view extension) noexcept;

/// Whether the last part of an extension implies an integer as text: "cls", "cls2", "index", "inx"
/// or "id", which webdataset decodes as integers.
bool is_integer_extension(std::string_view extension) noexcept;

/// Check that a sample with this key and these fields can be read back unchanged.
/// `invalid_argument` names the rule that is broken.
Status check_key(std::string_view key);
Status check_field(std::string_view key, const FieldView& field);

}  // namespace stoker
