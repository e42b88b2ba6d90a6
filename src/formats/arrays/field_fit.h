/// \file
/// What formats share when they turn fields into what they can hold: ShardFormat::fit.
#pragma once

#include <cstring>
#include <span>
#include <string>

#include "formats/dtype.h"
#include "formats/shard_format.h"
#include "stoker/status.h"

namespace stoker::internal {

template <typename T>
T load_at(std::span<const std::byte> bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

/// One number or more of the types that fields have, and no array.
inline bool is_number(const FieldView& field) {
  return field.type == FieldType::int64 || field.type == FieldType::float32 ||
         field.type == FieldType::float64;
}

/// Of the numbers of a field. `invalid_argument` for types that only NumPy knows.
Result<Dtype> dtype_of(const FieldView& field);

}  // namespace stoker::internal
