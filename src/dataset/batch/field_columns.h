/// \file
/// Fills the columns of a batch, sample by sample.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dataset/batch/batch_data.h"
#include "dataset/batch/field_array.h"
#include "dataset/batch/field_plan.h"
#include "dataset/batch/field_values.h"
#include "formats/shard_format.h"
#include "stoker/status.h"

namespace stoker::internal {

/// One for each thread; used for one batch after the other.
///
/// Thread safety: none.
class FieldColumns {
 public:
  /// `plan` outlives it.
  explicit FieldColumns(const FieldPlan& plan) : plan_(&plan), places_(plan.columns.size()) {}

  /// Begins a batch of `rows` samples, whose arrays go to the lease `batch.arrays`. `batch` stays
  /// where it is until finish().
  void begin(BatchData& batch, std::size_t rows);

  /// Sets row `row`, the one after the last row that was set, or that one again: after a failure
  /// the row may be set from another sample. `record` is what `sample` was split from; views of it
  /// are taken, anything else is copied. The failure names the field, not the sample.
  Status set_row(std::size_t row, const SampleView& sample, std::span<const std::byte> record);

  /// Makes the batch's columns, all of whose rows were set.
  void finish();

 private:
  /// Where a column's values go.
  struct Place {
    std::span<std::byte> room;
  };

  Status set_field(std::size_t column, std::size_t row, const SampleView& sample,
                   std::span<const std::byte> record);
  Status set_json(const PlannedColumn& column, std::size_t index, std::size_t row,
                  const FieldView& field);
  Status set_array(const PlannedColumn& column, std::size_t index, std::size_t row,
                   const FieldView& field);
  Status set_ragged(const PlannedColumn& column, std::size_t index, std::size_t row,
                    const ArrayView& view);
  Status set_padded(const PlannedColumn& column, std::size_t index, std::size_t row,
                    const ArrayView& view);
  void set_all_fields(std::size_t row, const SampleView& sample, std::span<const std::byte> record);
  void set_own(ColumnStore& store, std::size_t row, const FieldView& field,
               std::span<const std::byte> record);
  FieldView lasting_field(const FieldView& field, std::span<const std::byte> record);
  std::size_t find_or_add_store(std::string_view name, std::size_t hint);
  std::span<const std::byte> lasting(std::span<const std::byte> bytes,
                                     std::span<const std::byte> record);

  const FieldPlan* plan_;
  BatchData* batch_ = nullptr;
  std::size_t rows_ = 0;
  std::size_t store_count_ = 0;  // of all_fields: columns found so far
  std::vector<Place> places_;
  ArrayReader arrays_;
  JsonFields json_;
};

}  // namespace stoker::internal
