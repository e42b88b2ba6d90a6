#include "dataset/batch/column_decoder.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "dataset/batch/batch_data.h"
#include "dataset/batch/column_decoders.h"
#include "dataset/order/order_hash.h"

namespace stoker {

std::uint64_t DecodeContext::random() const noexcept {
  return internal::OrderHash(internal::Purpose::decoder)
      .with(seed)
      .with(epoch)
      .with(position)
      .value();
}

FieldDecoder::FieldDecoder(Dtype dtype, std::vector<std::uint64_t> shape)
    : dtype_(dtype),
      shape_(std::move(shape)),
      row_bytes_(std::accumulate(shape_.begin(), shape_.end(), dtype_size_bytes(dtype),
                                 std::multiplies<>())) {}

FieldDecoder::~FieldDecoder() = default;

namespace internal {
namespace {

/// Works for a decoder of the program.
class ProgramDecoder final : public RowDecoder {
 public:
  explicit ProgramDecoder(std::unique_ptr<FieldDecoder> decoder)
      : RowDecoder(decoder->dtype(), {decoder->shape().begin(), decoder->shape().end()}),
        decoder_(std::move(decoder)) {}
  std::unique_ptr<ColumnDecoder> clone() const override { return make_program_decoder(*decoder_); }

 private:
  Status decode(const FieldView& field, const RowContext& context,
                std::span<std::byte> out) override {
    try {
      return decoder_->decode(field, context, out);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      return {Code::invalid_argument, std::string("its decoder threw: ") + error.what()};
    } catch (...) {
      return {Code::invalid_argument, "its decoder threw what is no std::exception"};
    }
  }

  std::unique_ptr<FieldDecoder> decoder_;
};

}  // namespace

std::unique_ptr<ColumnDecoder> make_program_decoder(const FieldDecoder& decoder) {
  std::unique_ptr<FieldDecoder> made = decoder.clone();
  if (made == nullptr) throw std::invalid_argument("clone() of a FieldDecoder returned null");
  return std::make_unique<ProgramDecoder>(std::move(made));
}

RowDecoder::RowDecoder(Dtype dtype, std::vector<std::uint64_t> shape)
    : dtype_(dtype),
      shape_(std::move(shape)),
      row_bytes_(std::accumulate(shape_.begin(), shape_.end(), dtype_size_bytes(dtype),
                                 std::multiplies<>())) {}

std::size_t RowDecoder::array_bytes(std::size_t rows, std::size_t /*record_bytes*/) const noexcept {
  // More than any memory has: the sizes of all columns can be added up, and are refused.
  constexpr std::size_t kMost = std::size_t{1} << 56;
  std::size_t bytes = 0;
  return __builtin_mul_overflow(rows, row_bytes_, &bytes) ? kMost : std::min(bytes, kMost);
}

void RowDecoder::begin(const ColumnRoom& room, std::size_t rows) {
  room_ = room;
  rows_ = rows;
}

Status RowDecoder::set_row(std::size_t row, const FieldView& field, const RowContext& context) {
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

}  // namespace internal
}  // namespace stoker
