#include "dataset/batch/field_decoder.h"

#include <functional>
#include <numeric>

#include "dataset/batch/batch_data.h"
#include "dataset/order/order_hash.h"

namespace stoker {

std::uint64_t DecodeContext::random() const noexcept {
  return internal::OrderHash(internal::Purpose::decoder)
      .with(seed)
      .with(epoch)
      .with(position)
      .value();
}

RowDecoder::RowDecoder(Dtype dtype, std::vector<std::uint64_t> shape)
    : dtype_(dtype),
      shape_(std::move(shape)),
      row_bytes_(std::accumulate(shape_.begin(), shape_.end(), dtype_size_bytes(dtype),
                                 std::multiplies<>())) {}

std::size_t RowDecoder::array_bytes(std::size_t rows, std::size_t /*record_bytes*/) const noexcept {
  return rows * row_bytes_;
}

void RowDecoder::begin(const ColumnRoom& room, std::size_t rows) {
  room_ = room;
  rows_ = rows;
}

Status RowDecoder::set_row(std::size_t row, const FieldView& field, const DecodeContext& context) {
  row_ = row;
  return decode(field, context, room_.arrays.subspan(row * row_bytes_, row_bytes_));
}

void RowDecoder::finish(Column& out) {
  std::vector<std::uint64_t>& shape = room_.store->shape;
  shape.assign(1, rows_);
  shape.insert(shape.end(), shape_.begin(), shape_.end());
  out.layout = Column::Layout::array;
  out.dtype = dtype_;
  out.shape = shape;
  out.data = room_.arrays.first(rows_ * row_bytes_);
  out.lengths = room_.store->lengths;
}

}  // namespace stoker
