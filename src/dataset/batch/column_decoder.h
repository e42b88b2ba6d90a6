/// \file
/// ColumnDecoder: turns one field of each sample into one column of a batch. Programs have a
/// simpler interface, FieldDecoder in stoker/fields.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "stoker/batch.h"
#include "stoker/dtype.h"
#include "stoker/fields.h"
#include "stoker/status.h"

namespace stoker::internal {

struct ColumnStore;
class JsonFields;
class SpareMemory;

/// The same for decoders in this folder.
struct RowContext : DecodeContext {
  JsonFields* json = nullptr;  ///< Documents of this sample, parsed once.
};

/// The memory of one column of one batch.
struct ColumnRoom {
  std::span<std::byte> arrays = {};  ///< array_bytes() bytes, aligned to 64.
  ColumnStore* store = nullptr;      ///< Empty vectors, which keep their memory.
  SpareMemory* spare = nullptr;      ///< For what has no place in `arrays`.
};

/// Makes one column of a batch. The plan of a run has one decoder for each column, as a prototype;
/// each thread works with a clone.
///
/// A decoder throws nothing but std::bad_alloc, which ends the run. An error of set_row() fails the
/// sample: with OnError::skip another sample takes its place, whatever the code is.
///
/// Thread safety: none, but const methods may be called from any thread.
class ColumnDecoder {
 public:
  virtual ~ColumnDecoder() = default;
  virtual std::unique_ptr<ColumnDecoder> clone() const = 0;

  /// Whether the column has views of the records, which then live as long as the batch.
  virtual bool keeps_records() const noexcept { return false; }
  /// Returns the size of ColumnRoom::arrays for `rows` samples whose records take `record_bytes`.
  virtual std::size_t array_bytes(std::size_t /*rows*/,
                                  std::size_t /*record_bytes*/) const noexcept {
    return 0;
  }

  /// Begins a batch. `room` stays valid until finish() has returned.
  virtual void begin(const ColumnRoom& room, std::size_t rows) = 0;
  /// Sets a row. Rows are set in ascending order; after an error the same row may be set again,
  /// from another sample. The error names neither field nor sample: the caller adds them.
  virtual Status set_row(std::size_t row, const FieldView& field, const RowContext& context) = 0;
  /// Describes the column, all of whose rows were set. The caller has set its name.
  virtual void finish(Column& out) = 0;
};

/// A decoder whose rows all have one dtype and one shape. It writes each row to its place in the
/// batch.
class RowDecoder : public ColumnDecoder {
 public:
  /// `shape` is that of one row. A batch of them must fit into 2^63 bytes.
  RowDecoder(Dtype dtype, std::vector<std::uint64_t> shape);

  std::size_t array_bytes(std::size_t rows, std::size_t record_bytes) const noexcept override;
  void begin(const ColumnRoom& room, std::size_t rows) override;
  Status set_row(std::size_t row, const FieldView& field, const RowContext& context) final;
  void finish(Column& out) override;

 protected:
  /// Fills all of `out`, which has row_bytes().
  virtual Status decode(const FieldView& field, const RowContext& context,
                        std::span<std::byte> out) = 0;

  Dtype dtype() const noexcept { return dtype_; }
  std::span<const std::uint64_t> shape() const noexcept { return shape_; }
  std::size_t row_bytes() const noexcept { return row_bytes_; }
  const ColumnRoom& room() const noexcept { return room_; }
  /// The row that decode() fills.
  std::size_t row() const noexcept { return row_; }

 private:
  Dtype dtype_;
  std::vector<std::uint64_t> shape_;
  std::size_t row_bytes_;
  ColumnRoom room_;
  std::size_t rows_ = 0;
  std::size_t row_ = 0;
};

}  // namespace stoker::internal
