/// \file
/// Reads fields as arrays: .npy files, typed arrays, lists of numbers, plain elements.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dataset/batch/field_number.h"
#include "formats/arrays/npy.h"
#include "formats/shard_format.h"
#include "stoker/dtype.h"
#include "stoker/fields.h"
#include "stoker/status.h"

namespace stoker::internal {

/// A view of a field's elements, in C order.
struct ArrayView {
  Dtype dtype = Dtype::uint8;
  std::span<const std::uint64_t> shape;  ///< Empty: one element.
  std::span<const std::byte> data;

  std::uint64_t element_count() const noexcept { return data.size() / dtype_size_bytes(dtype); }
};

/// Reads fields as arrays, one after the other. Remembers the last .npy header: the files of a
/// column mostly have the same one, and comparing is cheaper than parsing and allocates nothing.
///
/// Thread safety: none.
class ArrayReader {
 public:
  using Shape = std::optional<std::span<const std::uint64_t>>;

  /// The result points into the field, the reader or `shape_if_flat`, and is valid until the next
  /// call. `dtype`: the element type of a field without one; a field that has one must match, but a
  /// single number, also as text, is converted if it fits. `shape_if_flat`: the shape for a field
  /// without one (plain elements, a TFRecord list, one number), if the number of elements matches.
  /// `corrupt` for a damaged .npy, `invalid_argument` for a field that is not an array or not the
  /// requested one; the message does not name the field.
  Result<ArrayView> read(const FieldView& field, std::optional<Dtype> dtype,
                         Shape shape_if_flat = {});

 private:
  Result<ArrayView> read_own(const FieldView& field, std::optional<Dtype> dtype,
                             Shape shape_if_flat);
  Result<ArrayView> read_npy(std::span<const std::byte> bytes);
  ArrayView flat(Dtype dtype, const FieldView& field, Shape shape_if_flat);
  Result<ArrayView> converted(const Number& number, Dtype dtype, ArrayView view);

  std::vector<std::byte> head_;  // the .npy header that `npy_` was parsed from
  std::size_t npy_size_bytes_ = 0;
  NpyArray npy_;
  std::uint64_t flat_shape_ = 0;
  std::array<std::byte, sizeof(std::uint64_t)> element_ = {};  // a converted number
};

/// Whether the bytes begin with the magic of an .npy file.
bool looks_like_npy(std::span<const std::byte> bytes) noexcept;

/// Formats a shape as Python does: "(3, 224, 224)".
std::string shape_text(std::span<const std::uint64_t> shape);

/// The product of the dimensions; nothing from 2^63 on.
std::optional<std::uint64_t> element_count_of(std::span<const std::uint64_t> shape) noexcept;

}  // namespace stoker::internal
