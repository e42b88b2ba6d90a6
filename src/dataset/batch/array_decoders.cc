#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "dataset/batch/batch_data.h"
#include "dataset/batch/column_decoders.h"
#include "dataset/batch/field_array.h"
#include "dataset/batch/field_plan.h"

namespace stoker::internal {
namespace {

using Shape = std::vector<std::uint64_t>;

/// The element type of a column, and the shape of its arrays.
struct Layout {
  Dtype dtype = Dtype::uint8;
  /// `array`: shape of a sample. `ragged`: shape of a sample without its first dimension. `pad`:
  /// shape of a padded sample.
  Shape shape = {};
  /// `array`: one number per sample. Untyped bytes are then a number as text; in other columns they
  /// are plain elements.
  bool is_number = false;
};

/// Fills `room` with copies of `element`.
void fill_with(std::span<std::byte> room, std::span<const std::byte> element) {
  if (std::ranges::all_of(element, [](std::byte b) { return b == std::byte{0}; })) {
    std::memset(room.data(), 0, room.size());
    return;
  }
  for (std::size_t at = 0; at < room.size(); at += element.size())
    std::memcpy(room.data() + at, element.data(), element.size());
}

Status check_rows(const ArrayView& view, std::span<const std::uint64_t> wanted) {
  if (!view.shape.empty() && std::ranges::equal(view.shape.subspan(1), wanted)) return {};
  return Status(Code::invalid_argument,
                fmt::format("its shape is {}, but after the first dimension it must be {}",
                            shape_text(view.shape), shape_text(wanted)));
}

/// FieldKind::array: every sample has the same shape.
class ArrayDecoder final : public RowDecoder {
 public:
  explicit ArrayDecoder(Layout layout)
      : RowDecoder(layout.dtype, std::move(layout.shape)), is_number_(layout.is_number) {}
  std::unique_ptr<ColumnDecoder> clone() const override {
    return std::make_unique<ArrayDecoder>(*this);
  }

 private:
  Status decode(const FieldView& field, const RowContext& /*context*/,
                std::span<std::byte> out) override {
    FieldView seen = field;
    if (is_number_ && field.type == FieldType::bytes && !looks_like_npy(field.bytes))
      seen.type = FieldType::text;
    STOKER_ASSIGN(const ArrayView view, arrays_.read(seen, dtype(), shape()));
    if (!std::ranges::equal(view.shape, shape()))
      return Status(Code::invalid_argument,
                    fmt::format("its shape is {}, but that of the column is {}: samples of several "
                                "shapes need a ragged or a padded column",
                                shape_text(view.shape), shape_text(shape())));
    if (!out.empty()) std::memcpy(out.data(), view.data.data(), out.size());
    return {};
  }

  bool is_number_;
  ArrayReader arrays_;
};

/// FieldKind::pad: the first dimension is padded to a fixed length.
class PadDecoder final : public RowDecoder {
 public:
  PadDecoder(Layout layout, std::vector<std::byte> element, bool cuts)
      : RowDecoder(layout.dtype, std::move(layout.shape)),
        element_(std::move(element)),
        cuts_(cuts) {}
  std::unique_ptr<ColumnDecoder> clone() const override {
    return std::make_unique<PadDecoder>(*this);
  }

 private:
  void begin(const ColumnRoom& room, std::size_t rows) override {
    RowDecoder::begin(room, rows);
    room.store->lengths.assign(rows, 0);
  }
  Status decode(const FieldView& field, const RowContext& /*context*/,
                std::span<std::byte> out) override {
    STOKER_ASSIGN(const ArrayView view, arrays_.read(field, dtype()));
    STOKER_TRY(check_rows(view, shape().subspan(1)));
    if (view.shape[0] > shape()[0] && !cuts_)
      return Status(
          Code::invalid_argument,
          fmt::format("its length is {}, more than the {} to pad to", view.shape[0], shape()[0]));
    const std::size_t size = std::min(view.data.size(), out.size());
    if (size > 0) std::memcpy(out.data(), view.data.data(), size);
    fill_with(out.subspan(size), element_);
    room().store->lengths[row()] = std::min(view.shape[0], shape()[0]);
    return {};
  }

  std::vector<std::byte> element_;
  bool cuts_;
  ArrayReader arrays_;
};

/// FieldKind::ragged: the rows of all samples one after the other.
class RaggedDecoder final : public ColumnDecoder {
 public:
  RaggedDecoder(Layout layout, std::size_t row_bytes)
      : dtype_(layout.dtype), shape_(std::move(layout.shape)), row_bytes_(row_bytes) {}
  std::unique_ptr<ColumnDecoder> clone() const override {
    return std::make_unique<RaggedDecoder>(*this);
  }

  /// The elements are part of the records, so they fit. Lists of varints may not: they go to the
  /// spare memory.
  std::size_t array_bytes(std::size_t /*rows*/, std::size_t record_bytes) const noexcept override {
    return record_bytes;
  }
  void begin(const ColumnRoom& room, std::size_t rows) override {
    room_ = room;
    room_.store->offsets.assign(rows + 1, 0);
  }
  Status set_row(std::size_t row, const FieldView& field, const RowContext& /*context*/) override {
    STOKER_ASSIGN(const ArrayView view, arrays_.read(field, dtype_));
    STOKER_TRY(check_rows(view, shape_));
    std::vector<std::uint64_t>& offsets = room_.store->offsets;
    std::span<std::byte>& values = room_.arrays;
    const std::size_t begin = offsets[row] * row_bytes_;
    if (begin + view.data.size() > values.size()) {
      const std::span<std::byte> larger =
          room_.spare->take(std::max(begin + view.data.size(), 2 * values.size()));
      std::ranges::copy(values.first(begin), larger.begin());
      values = larger;
    }
    if (!view.data.empty()) std::memcpy(values.data() + begin, view.data.data(), view.data.size());
    offsets[row + 1] = offsets[row] + view.shape[0];
    return {};
  }
  void finish(Column& out) override {
    ColumnStore& store = *room_.store;
    store.shape.assign(1, store.offsets.back());
    store.shape.insert(store.shape.end(), shape_.begin(), shape_.end());
    out.layout = Column::Layout::ragged;
    out.dtype = dtype_;
    out.shape = store.shape;
    out.data = room_.arrays.first(store.offsets.back() * row_bytes_);
    out.offsets = store.offsets;
  }

 private:
  Dtype dtype_;
  Shape shape_;
  std::size_t row_bytes_;
  ColumnRoom room_;
  ArrayReader arrays_;
};

Result<std::size_t> bytes_of(const Layout& layout) {
  const auto count = element_count_of(layout.shape);
  std::uint64_t bytes = 0;
  if (!count || __builtin_mul_overflow(*count, dtype_size_bytes(layout.dtype), &bytes) ||
      bytes >= std::uint64_t{1} << 63)
    return Status(Code::invalid_argument,
                  fmt::format("a sample of shape {} is too large", shape_text(layout.shape)));
  return bytes;
}

/// Whether the spec gives the dimensions of a sample, which is then plain elements.
bool has_dimensions(const FieldSpec& spec) {
  return spec.shape && !spec.shape->empty();
}

Result<Layout> settle(const FieldSpec& spec, const FieldView& seen) {
  Layout layout;
  ArrayReader reader;
  ArrayView view;
  if (wants_sample(spec)) {
    FieldView field = seen;
    if (spec.kind == FieldKind::array && spec.dtype) {
      STOKER_ASSIGN(const bool is_text, is_number_text(field, *spec.dtype));
      if (is_text) field.type = FieldType::text;
    }
    STOKER_ASSIGN(view, reader.read(field, spec.dtype));
    layout.is_number = spec.kind == FieldKind::array && !has_dimensions(spec) &&
                       field.type != FieldType::bytes && view.element_count() == 1;
  }
  layout.dtype = spec.dtype.value_or(view.dtype);
  layout.shape = spec.shape.value_or(Shape(view.shape.begin(), view.shape.end()));
  if (spec.kind == FieldKind::array) return layout;
  if (layout.shape.empty())
    return Status(Code::invalid_argument, "it is a single number: it has no dimension to vary");
  if (spec.kind == FieldKind::ragged) {
    layout.shape.erase(layout.shape.begin());
  } else {
    layout.shape[0] = spec.pad_length;
  }
  return layout;
}

}  // namespace

Result<bool> is_number_text(const FieldView& field, Dtype dtype) {
  const bool is_text = field.type == FieldType::text || field.type == FieldType::json;
  const bool is_untyped = field.type == FieldType::bytes && !looks_like_npy(field.bytes);
  if (!is_text && !is_untyped) return false;
  if (parse_real(field.bytes).ok()) return is_untyped;
  const bool is_printable = std::ranges::all_of(field.bytes, [](std::byte byte) {
    const auto c = std::to_integer<unsigned char>(byte);
    return (c >= ' ' && c <= '~') || (c >= '\t' && c <= '\r');
  });
  // The letters of "true" would be four elements.
  if (dtype == Dtype::boolean && is_printable && !field.bytes.empty())
    return Status(Code::invalid_argument, "it is text: ask for bool, which reads true and false");
  if (is_text || field.bytes.empty() || !is_printable || dtype_size_bytes(dtype) == 1) return false;
  return Status(
      Code::invalid_argument,
      fmt::format("it is text, but not a number; if it is plain elements, give their shape, "
                  "stoker.Array(\"{}\", shape)",
                  dtype_name(dtype)));
}

bool is_plain_elements(const FieldSpec& spec, const FieldView& seen) {
  if (spec.kind != FieldKind::array || !spec.dtype || seen.type != FieldType::bytes) return false;
  const Result<bool> is_text = is_number_text(seen, *spec.dtype);
  return is_text.ok() && !*is_text && !looks_like_npy(seen.bytes);
}

bool wants_sample(const FieldSpec& spec) noexcept {
  switch (spec.kind) {
    case FieldKind::array: return !spec.dtype || !has_dimensions(spec);
    case FieldKind::ragged:
    case FieldKind::pad: return true;  // for the dimensions after the first
    default: return false;
  }
}

Result<std::unique_ptr<ColumnDecoder>> make_array_decoder(const FieldSpec& spec,
                                                          const FieldView& seen) {
  STOKER_ASSIGN(Layout layout, settle(spec, seen));
  STOKER_ASSIGN(const std::size_t row_bytes, bytes_of(layout));
  std::unique_ptr<ColumnDecoder> decoder;
  if (spec.kind == FieldKind::array) {
    decoder = std::make_unique<ArrayDecoder>(std::move(layout));
  } else if (spec.kind == FieldKind::ragged) {
    decoder = std::make_unique<RaggedDecoder>(std::move(layout), row_bytes);
  } else {
    std::vector<std::byte> element;
    if (!put_pad(layout.dtype, spec.pad_value, element))
      return Status(Code::invalid_argument, fmt::format("the padding {} is not a valid {}",
                                                        spec.pad_value, dtype_name(layout.dtype)));
    decoder = std::make_unique<PadDecoder>(std::move(layout), std::move(element), spec.pad_cut);
  }
  return decoder;
}

}  // namespace stoker::internal
