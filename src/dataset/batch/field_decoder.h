/// \file
/// FieldDecoder: turns one field of each sample into one column of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dataset/batch/batch.h"
#include "formats/dtype.h"
#include "formats/shard_format.h"
#include "stoker/status.h"

namespace stoker {
namespace internal {
struct ColumnStore;
class JsonFields;
class SpareMemory;
}  // namespace internal

/// The sample that a row is made of. Whatever a decoder does at random is a function of `seed`,
/// `epoch` and `position`, and so the same on any number of ranks and threads, and after a resume.
struct DecodeContext {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;              ///< In the epoch.
  std::span<const std::byte> record = {};  ///< What the sample was split from.
  internal::JsonFields* json = nullptr;    ///< Documents of this sample, parsed once.
};

/// What a column of one batch is kept in.
struct ColumnRoom {
  std::span<std::byte> arrays = {};        ///< As many as array_bytes() said; aligned to 64.
  internal::ColumnStore* store = nullptr;  ///< Empty vectors, which keep their memory.
  internal::SpareMemory* spare = nullptr;  ///< For what has no place in `arrays`.
};

/// A run's plan has one for each column, with everything settled that does not change from batch to
/// batch; each thread works with a clone.
///
/// Thread safety: none, but const methods from any thread.
class FieldDecoder {
 public:
  virtual ~FieldDecoder() = default;
  virtual std::unique_ptr<FieldDecoder> clone() const = 0;

  /// Whether the column has views of the records, which then live as long as the batch.
  virtual bool keeps_records() const noexcept { return false; }
  /// Memory for the column of a batch of `rows` samples whose records take `record_bytes`.
  virtual std::size_t array_bytes(std::size_t /*rows*/,
                                  std::size_t /*record_bytes*/) const noexcept {
    return 0;
  }

  /// Begins a batch. The room is where it is until finish() was called.
  virtual void begin(const ColumnRoom& room, std::size_t rows) = 0;
  /// Sets the row after the last one that was set, or that one again: after a failure it may be set
  /// from another sample. The failure names neither field nor sample: who calls does.
  virtual Status set_row(std::size_t row, const FieldView& field, const DecodeContext& context) = 0;
  /// Describes the column, all of whose rows were set. Its name is there already.
  virtual void finish(Column& out) = 0;
};

/// A decoder whose rows all have one dtype and one shape, each written where the batch has it: the
/// base of most.
class RowDecoder : public FieldDecoder {
 public:
  /// `shape`: of one row, which fits into 2^63 bytes.
  RowDecoder(Dtype dtype, std::vector<std::uint64_t> shape);

  std::size_t array_bytes(std::size_t rows, std::size_t record_bytes) const noexcept override;
  void begin(const ColumnRoom& room, std::size_t rows) override;
  Status set_row(std::size_t row, const FieldView& field, const DecodeContext& context) final;
  void finish(Column& out) override;

 protected:
  /// Fills `out`, all of it: row_bytes().
  virtual Status decode(const FieldView& field, const DecodeContext& context,
                        std::span<std::byte> out) = 0;

  Dtype dtype() const noexcept { return dtype_; }
  std::span<const std::uint64_t> shape() const noexcept { return shape_; }
  std::size_t row_bytes() const noexcept { return row_bytes_; }
  const ColumnRoom& room() const noexcept { return room_; }
  /// The one that decode() fills.
  std::size_t row() const noexcept { return row_; }

 private:
  Dtype dtype_;
  std::vector<std::uint64_t> shape_;
  std::size_t row_bytes_;
  ColumnRoom room_;
  std::size_t rows_ = 0;
  std::size_t row_ = 0;
};

}  // namespace stoker
