/// \file
/// Shared by the ShardFormat::fit functions, which convert a field to a type its format can store.
#pragma once

#include <cstring>
#include <span>
#include <string>

#include "formats/shard_format.h"
#include "stoker/dtype.h"
#include "stoker/status.h"

namespace stoker::internal {

template <typename T>
T load_at(std::span<const std::byte> bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

/// Whether the field is one or more int64, float32 or float64 numbers, and not an array.
inline bool is_number(const FieldView& field) {
  return field.type == FieldType::int64 || field.type == FieldType::float32 ||
         field.type == FieldType::float64;
}

/// Returns the element type of the field's numbers. `invalid_argument` if Dtype has no such type.
Result<Dtype> dtype_of(const FieldView& field);

}  // namespace stoker::internal
