/// \file
/// FieldDecoder: turns one field of each sample into one column of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dataset/batch/batch.h"
#include "formats/shard_format.h"
#include "stoker/dtype.h"
#include "stoker/status.h"

namespace stoker {
namespace internal {
struct ColumnStore;
class JsonFields;
class SpareMemory;
}  // namespace internal

/// The sample that a row is made of.
struct DecodeContext {
  std::uint64_t seed = 0;  ///< The loader's.
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;              ///< In the epoch.
  std::span<const std::byte> record = {};  ///< What the sample was split from.
  internal::JsonFields* json = nullptr;    ///< Documents of this sample, parsed once.

  /// A random number that depends on `seed`, `epoch` and `position` alone. Everything that a
  /// decoder does at random must follow from it: it is then the same on any number of ranks and
  /// threads, and after a resume. All decoders of a sample get the same number, so that an image
  /// and its mask are cropped in the same way.
  std::uint64_t random() const noexcept;
};

/// The memory of one column of one batch.
struct ColumnRoom {
  std::span<std::byte> arrays = {};        ///< array_bytes() bytes, aligned to 64.
  internal::ColumnStore* store = nullptr;  ///< Empty vectors, which keep their memory.
  internal::SpareMemory* spare = nullptr;  ///< For what has no place in `arrays`.
};

/// Makes one column of a batch. The plan of a run has one decoder for each column, as a prototype;
/// each thread works with a clone. Decoders outside this folder derive from RowDecoder: ColumnStore
/// and SpareMemory are internal.
///
/// A decoder throws nothing but std::bad_alloc, which ends the run. An error of set_row() fails the
/// sample: with OnError::skip another sample takes its place, whatever the code is. The settings of
/// a decoder are not part of a cursor: a resumed run must be given the same ones.
///
/// Thread safety: none, but const methods may be called from any thread.
class FieldDecoder {
 public:
  virtual ~FieldDecoder() = default;
  virtual std::unique_ptr<FieldDecoder> clone() const = 0;

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
  virtual Status set_row(std::size_t row, const FieldView& field, const DecodeContext& context) = 0;
  /// Describes the column, all of whose rows were set. The caller has set its name.
  virtual void finish(Column& out) = 0;
};

/// A decoder whose rows all have one dtype and one shape. It writes each row to its place in the
/// batch.
class RowDecoder : public FieldDecoder {
 public:
  /// `shape` is that of one row. A batch of them must fit into 2^63 bytes.
  RowDecoder(Dtype dtype, std::vector<std::uint64_t> shape);

  std::size_t array_bytes(std::size_t rows, std::size_t record_bytes) const noexcept override;
  void begin(const ColumnRoom& room, std::size_t rows) override;
  Status set_row(std::size_t row, const FieldView& field, const DecodeContext& context) final;
  void finish(Column& out) override;

 protected:
  /// Fills all of `out`, which has row_bytes().
  virtual Status decode(const FieldView& field, const DecodeContext& context,
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

}  // namespace stoker
