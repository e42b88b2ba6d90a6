/// \file
/// Single values out of fields: numbers and text, whatever the format wrote them as.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dataset/batch/field_array.h"
#include "formats/json/json.h"
#include "formats/shard_format.h"
#include "stoker/status.h"

namespace stoker::internal {

// None of these name the field; who calls does.

/// Digits with a sign and white space around them, a typed integer, an array of one, or a JSON
/// integer. `invalid_argument` for another type, several values, bytes that are no number, or one
/// that an int64 does not hold.
Result<std::int64_t> read_int64(const FieldView& field, ArrayReader& arrays);
/// The same for numbers; integers too, rounded to what a double holds.
Result<double> read_float64(const FieldView& field, ArrayReader& arrays);

/// Text in UTF-8: `corrupt` if it is not, `invalid_argument` for numbers, arrays, and bytes that
/// never were text.
Status check_text(const FieldView& field);

/// Documents of one sample's fields, parsed once however many columns look into them.
///
/// Thread safety: none.
class JsonFields {
 public:
  /// To be called for each sample.
  void begin_sample() noexcept { parsed_ = {}; }

  /// The value at `path` of the document in `field`; it lives until the next call. `corrupt` for a
  /// document that is no JSON, `invalid_argument` for one without that path.
  Result<const Json*> find(const FieldView& field, std::string_view path);

 private:
  std::span<const std::byte> parsed_;  // which bytes document_ came from
  Json document_;
};

Result<std::int64_t> json_int64(const Json& value);
Result<double> json_float64(const Json& value);

}  // namespace stoker::internal
