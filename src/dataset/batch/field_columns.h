/// \file
/// Fills the columns of a batch, sample by sample.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "dataset/batch/batch_data.h"
#include "dataset/batch/column_decoder.h"
#include "dataset/batch/field_plan.h"
#include "dataset/batch/field_values.h"
#include "formats/shard_format.h"
#include "stoker/status.h"

namespace stoker::internal {

/// Each thread has one and uses it for one batch after the other.
///
/// Thread safety: none.
class FieldColumns {
 public:
  /// `plan` must outlive the object. `seed`: see RowContext.
  FieldColumns(const FieldPlan& plan, std::uint64_t seed);

  /// Begins a batch of `rows` samples. Arrays go to the lease `batch.arrays`, which has
  /// plan.arrays_bytes(rows, record_bytes). `batch` must not move until finish().
  void begin(BatchData& batch, std::size_t rows, std::size_t record_bytes);

  /// Sets row `row`, which is the row after the last one set, or the last one again: after a
  /// failure the row may be set from another sample. `sample` was split from `record`; columns may
  /// refer to bytes in `record`, other bytes are copied. The failure names the field, not the
  /// sample.
  Status set_row(std::size_t row, const SampleView& sample, std::span<const std::byte> record);

  /// Makes the batch's columns, after all rows were set.
  void finish();

 private:
  void set_all_fields(std::size_t row, const SampleView& sample, std::span<const std::byte> record);
  std::size_t find_or_add_store(std::string_view name, std::size_t hint);

  const FieldPlan* plan_;
  const std::uint64_t seed_;
  std::vector<std::unique_ptr<ColumnDecoder>> decoders_;  // of the plan's columns
  BatchData* batch_ = nullptr;
  std::size_t rows_ = 0;
  std::size_t store_count_ = 0;  // for all_fields: columns found so far
  JsonFields json_;
};

}  // namespace stoker::internal
