/// \file
/// Arrays out of fields: .npy files, typed arrays, lists of numbers, plain elements.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dataset/batch/field_number.h"
#include "dataset/batch/field_spec.h"
#include "formats/arrays/npy.h"
#include "formats/dtype.h"
#include "formats/shard_format.h"
#include "stoker/status.h"

namespace stoker::internal {

/// A field's elements, in C order, wherever they lie.
struct ArrayView {
  Dtype dtype = Dtype::uint8;
  std::span<const std::uint64_t> shape;  ///< Empty: one element.
  std::span<const std::byte> data;

  std::uint64_t element_count() const noexcept { return data.size() / dtype_size_bytes(dtype); }
};

/// Reads fields as arrays, one after the other. It remembers the last .npy header: the files of a
/// column mostly have the same one, and comparing is cheaper than parsing, and allocates nothing.
///
/// Thread safety: none.
class ArrayReader {
 public:
  using Shape = std::optional<std::span<const std::uint64_t>>;

  /// The views are inside the field, the reader or `shape_if_flat`, until the next call.
  /// `dtype`: of a field whose bytes do not say; of one that does it must be the same, but a single
  /// number, also one written as text, is converted to it if it fits.
  /// `shape_if_flat`: what a field is cut into that has no shape of its own (plain elements, a
  /// TFRecord list, one number), if it has as many elements. `corrupt` for a damaged .npy,
  /// `invalid_argument` for what is no array or another one than wanted; neither names the field.
  Result<ArrayView> read(const FieldView& field, std::optional<Dtype> dtype,
                         Shape shape_if_flat = {});

 private:
  Result<ArrayView> read_own(const FieldView& field, std::optional<Dtype> dtype,
                             Shape shape_if_flat);
  Result<ArrayView> read_npy(std::span<const std::byte> bytes);
  ArrayView flat(Dtype dtype, const FieldView& field, Shape shape_if_flat);
  Result<ArrayView> converted(const Number& number, Dtype dtype, ArrayView view);

  std::vector<std::byte> head_;  // of the .npy file that `npy_` was parsed from
  std::size_t npy_size_bytes_ = 0;
  NpyArray npy_;
  std::uint64_t flat_shape_ = 0;
  std::array<std::byte, sizeof(std::uint64_t)> element_ = {};  // a converted number
};

/// Whether these are the bytes of an .npy file, by its magic.
bool looks_like_npy(std::span<const std::byte> bytes) noexcept;

/// "(3, 224, 224)": as Python writes it.
std::string shape_text(std::span<const std::uint64_t> shape);

/// The product; nothing past 2^63.
std::optional<std::uint64_t> element_count_of(std::span<const std::uint64_t> shape) noexcept;

}  // namespace stoker::internal
