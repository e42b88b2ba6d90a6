/// \file
/// Reads single values from fields: numbers and text, in any form that formats write.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dataset/batch/field_array.h"
#include "formats/json/json.h"
#include "formats/shard_format.h"
#include "stoker/status.h"

namespace stoker::internal {

// The failures do not name the field: the caller adds it.

/// Reads an integer: as text with optional sign and surrounding white space, typed, or an array of
/// one. `invalid_argument` for another type, several values, bytes that are not an integer, or one
/// that does not fit in an int64.
Result<std::int64_t> read_int64(const FieldView& field, ArrayReader& arrays);
/// The same for real numbers and integers. `invalid_argument` also for an integer that a double
/// cannot represent exactly.
Result<double> read_float64(const FieldView& field, ArrayReader& arrays);

/// Reads a boolean: "true", "false", "1" or "0" as text or JSON, also "True" and "False", or a
/// typed 1 or 0. `invalid_argument` for anything else.
Result<bool> read_bool(const FieldView& field, ArrayReader& arrays);

/// Checks for UTF-8 text: `corrupt` if a text field is not UTF-8, `invalid_argument` for numbers,
/// arrays, and untyped bytes that are not UTF-8.
Status check_text(const FieldView& field);

/// Caches the JSON document of a sample's field, so that several columns parse it once.
///
/// Thread safety: none.
class JsonFields {
 public:
  /// Call it for each sample.
  void begin_sample() noexcept { parsed_ = {}; }

  /// Returns the value at `path` of the document in `field`, valid until the next call. `corrupt`
  /// if the document is not JSON, `invalid_argument` if it has no such path.
  Result<const Json*> find(const FieldView& field, std::string_view path);

 private:
  std::span<const std::byte> parsed_;  // the bytes of document_
  Json document_;
};

Result<std::int64_t> json_int64(const Json& value);
Result<double> json_float64(const Json& value);

}  // namespace stoker::internal
