#include "dataset/batch/field_array.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "formats/tfrecord/tf_example.h"

namespace stoker::internal {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";

bool same_bits(Dtype a, Dtype b) {
  // .npy stores bfloat16 as uint16.
  return a == b || (a == Dtype::bfloat16 && b == Dtype::uint16);
}

bool is_text(const FieldView& field) {
  return field.type == FieldType::text || field.type == FieldType::json;
}

}  // namespace

bool looks_like_npy(std::span<const std::byte> bytes) noexcept {
  return bytes.size() >= kNpyMagic.size() &&
         std::ranges::equal(bytes.first(kNpyMagic.size()), std::as_bytes(std::span(kNpyMagic)));
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

std::optional<std::uint64_t> element_count_of(std::span<const std::uint64_t> shape) noexcept {
  std::uint64_t count = 1;
  for (const std::uint64_t size : shape)
    if (__builtin_mul_overflow(count, size, &count)) return std::nullopt;
  if (count >= std::uint64_t{1} << 63) return std::nullopt;
  return count;
}

Result<ArrayView> ArrayReader::read_npy(std::span<const std::byte> bytes) {
  const bool is_same = bytes.size() == npy_size_bytes_ && bytes.size() >= head_.size() &&
                       !head_.empty() && std::ranges::equal(bytes.first(head_.size()), head_);
  if (!is_same) {
    head_.clear();  // invalid if parse_npy() fails
    const auto head = bytes.first(std::min<std::size_t>(bytes.size(), kNpyHeadBytesMax));
    STOKER_ASSIGN(npy_, parse_npy(head, bytes.size()));
    head_.assign(bytes.begin(),
                 bytes.begin() + static_cast<std::ptrdiff_t>(npy_.data_offset_bytes));
    npy_size_bytes_ = bytes.size();
  }
  return ArrayView{npy_.dtype, npy_.shape, bytes.subspan(npy_.data_offset_bytes)};
}

ArrayView ArrayReader::flat(Dtype dtype, const FieldView& field, Shape shape_if_flat) {
  flat_shape_ = field.bytes.size() / dtype_size_bytes(dtype);
  if (shape_if_flat && element_count_of(*shape_if_flat) == flat_shape_)
    return {dtype, *shape_if_flat, field.bytes};
  // A single number has no dimension, unless it is a list of length 1.
  if (flat_shape_ == 1 && field.type != FieldType::bytes) return {dtype, field.shape, field.bytes};
  return {dtype, {&flat_shape_, 1}, field.bytes};
}

/// Reads the field with its own dtype, or with `dtype` if it has none.
Result<ArrayView> ArrayReader::read_own(const FieldView& field, std::optional<Dtype> dtype,
                                        Shape shape_if_flat) {
  std::optional<Dtype> own = dtype;
  switch (field.type) {
    case FieldType::int64: own = Dtype::int64; break;
    case FieldType::float32: own = Dtype::float32; break;
    case FieldType::float64: own = Dtype::float64; break;
    case FieldType::text:
    case FieldType::json:
      return Status(Code::invalid_argument, "it is text: give str, or for numbers int or float");
    case FieldType::array: {
      if (field.dtype == kBytesListDtype)
        return Status(Code::invalid_argument, "it is a list of byte strings, not an array");
      STOKER_ASSIGN(const Dtype found, dtype_from_descr(field.dtype));
      return ArrayView{found, field.shape, field.bytes};
    }
    case FieldType::bytes:
      if (looks_like_npy(field.bytes)) return read_npy(field.bytes);
      break;
  }
  if (!own)
    return Status(Code::invalid_argument, "its bytes have no element type: give the field a dtype");
  if (field.bytes.size() % dtype_size_bytes(*own) != 0)
    return Status(
        Code::invalid_argument,
        fmt::format("its {} bytes are not a whole number of {}; if they are an encoded file, "
                    "such as an image, ask for bytes and decode them in map=",
                    field.bytes.size(), dtype_name(*own)));
  return flat(*own, field, shape_if_flat);
}

Result<ArrayView> ArrayReader::converted(const Number& number, Dtype dtype, ArrayView view) {
  STOKER_TRY(store_number(number, dtype, element_));
  view.dtype = dtype;
  view.data = std::span(element_).first(dtype_size_bytes(dtype));
  return view;
}

Result<ArrayView> ArrayReader::read(const FieldView& field, std::optional<Dtype> dtype,
                                    Shape shape_if_flat) {
  if (dtype && is_text(field)) {
    STOKER_ASSIGN(const Number number, parse_number_for(*dtype, field.bytes));
    ArrayView view;
    if (shape_if_flat && element_count_of(*shape_if_flat) == 1) view.shape = *shape_if_flat;
    return converted(number, *dtype, view);
  }
  STOKER_ASSIGN(ArrayView view, read_own(field, dtype, shape_if_flat));
  if (!dtype || same_bits(*dtype, view.dtype)) {
    view.dtype = dtype.value_or(view.dtype);
    return view;
  }
  if (view.element_count() == 1) return converted(load_number(view.dtype, view.data), *dtype, view);
  return Status(Code::invalid_argument, fmt::format("it contains {}, but {} was requested",
                                                    dtype_name(view.dtype), dtype_name(*dtype)));
}

}  // namespace stoker::internal
