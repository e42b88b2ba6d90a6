/// \file
/// Fills the columns of a batch, sample by sample.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "dataset/batch/batch_data.h"
#include "dataset/batch/field_decoder.h"
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
  /// `plan` outlives it. `seed`: see DecodeContext.
  FieldColumns(const FieldPlan& plan, std::uint64_t seed);

  /// Begins a batch of `rows` samples, whose arrays go to the lease `batch.arrays`: of
  /// plan.arrays_bytes(rows, record_bytes). `batch` stays where it is until finish().
  void begin(BatchData& batch, std::size_t rows, std::size_t record_bytes);

  /// Sets row `row`, the one after the last row that was set, or that one again: after a failure
  /// the row may be set from another sample. `record` is what `sample` was split from; views of it
  /// are taken, anything else is copied. The failure names the field, not the sample.
  Status set_row(std::size_t row, const SampleView& sample, std::span<const std::byte> record);

  /// Makes the batch's columns, all of whose rows were set.
  void finish();

 private:
  void set_all_fields(std::size_t row, const SampleView& sample, std::span<const std::byte> record);
  std::size_t find_or_add_store(std::string_view name, std::size_t hint);

  const FieldPlan* plan_;
  const std::uint64_t seed_;
  std::vector<std::unique_ptr<FieldDecoder>> decoders_;  // of the plan's columns
  BatchData* batch_ = nullptr;
  std::size_t rows_ = 0;
  std::size_t store_count_ = 0;  // of all_fields: columns found so far
  JsonFields json_;
};

}  // namespace stoker::internal
