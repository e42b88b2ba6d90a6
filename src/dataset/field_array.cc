#include "dataset/field_array.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "formats/tf_example.h"

namespace stoker::internal {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";

bool same_bits(Dtype a, Dtype b) {
  // .npy carries bfloat16 as uint16.
  return a == b || (a == Dtype::bfloat16 && b == Dtype::uint16);
}

Status check_dtype(Dtype wanted, Dtype found) {
  if (same_bits(wanted, found)) return {};
  return Status(Code::invalid_argument, fmt::format("it holds {}, and {} was asked for",
                                                    dtype_name(found), dtype_name(wanted)));
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
    head_.clear();  // whatever parse_npy() finds, what was remembered is no longer npy_'s
    const auto head = bytes.first(std::min<std::size_t>(bytes.size(), kNpyHeadBytesMax));
    STOKER_ASSIGN(npy_, parse_npy(head, bytes.size()));
    head_.assign(bytes.begin(),
                 bytes.begin() + static_cast<std::ptrdiff_t>(npy_.data_offset_bytes));
    npy_size_bytes_ = bytes.size();
  }
  return ArrayView{npy_.dtype, npy_.shape, bytes.subspan(npy_.data_offset_bytes)};
}

ArrayView ArrayReader::flat(Dtype dtype, std::span<const std::byte> bytes, Shape shape_if_flat) {
  flat_shape_ = bytes.size() / dtype_size_bytes(dtype);
  if (shape_if_flat && element_count_of(*shape_if_flat) == flat_shape_)
    return {dtype, *shape_if_flat, bytes};
  return {dtype, {&flat_shape_, 1}, bytes};
}

Result<ArrayView> ArrayReader::read(const FieldView& field, std::optional<Dtype> dtype,
                                    Shape shape_if_flat) {
  std::optional<Dtype> own;
  switch (field.type) {
    case FieldType::int64: own = Dtype::int64; break;
    case FieldType::float32: own = Dtype::float32; break;
    case FieldType::float64: own = Dtype::float64; break;
    case FieldType::text:
    case FieldType::json: return Status(Code::invalid_argument, "it holds text, which is no array");
    case FieldType::array: {
      if (field.dtype == kBytesListDtype)
        return Status(Code::invalid_argument, "it is a list of byte strings, which is no array");
      STOKER_ASSIGN(const Dtype found, dtype_from_descr(field.dtype));
      if (dtype) STOKER_TRY(check_dtype(*dtype, found));
      return ArrayView{dtype.value_or(found), field.shape, field.bytes};
    }
    case FieldType::bytes: {
      if (!looks_like_npy(field.bytes)) break;
      STOKER_ASSIGN(ArrayView view, read_npy(field.bytes));
      if (dtype) STOKER_TRY(check_dtype(*dtype, view.dtype));
      view.dtype = dtype.value_or(view.dtype);
      return view;
    }
  }
  if (own && dtype) STOKER_TRY(check_dtype(*dtype, *own));
  if (!own) own = dtype;
  if (!own)
    return Status(Code::invalid_argument,
                  "its bytes do not say what they hold: give the field a dtype");
  if (field.bytes.size() % dtype_size_bytes(*own) != 0)
    return Status(Code::corrupt, fmt::format("its {} bytes are not a whole number of {}",
                                             field.bytes.size(), dtype_name(*own)));
  return flat(*own, field.bytes, shape_if_flat);
}

}  // namespace stoker::internal
