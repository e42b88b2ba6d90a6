/// \file
/// The columns of a run, with everything that is constant over the run.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dataset/batch/column_decoder.h"
#include "dataset/shard_dataset.h"
#include "formats/shard_format.h"
#include "stoker/dtype.h"
#include "stoker/fields.h"
#include "stoker/status.h"

namespace stoker::internal {

struct PlannedColumn {
  std::string name;
  /// Names of the field: the first one that a sample has is used.
  std::vector<std::string> sources = {};
  std::shared_ptr<const ColumnDecoder> decoder = {};
  /// Dtype of a column of plain elements, which could read numbers as text without an error.
  std::optional<Dtype> plain_dtype = {};

  /// Returns the sample's field; null if it has none of these names.
  const FieldView* find_in(const SampleView& sample) const noexcept;
};

/// Thread safety: immutable.
struct FieldPlan {
  std::vector<PlannedColumn> columns;
  bool all_fields = false;  ///< No columns were named: all fields of the samples.

  /// Whether columns refer to the records, which must then be kept as long as the batch.
  bool keeps_records() const noexcept;
  /// Memory for the arrays of `rows` samples whose records take `record_bytes` of memory.
  std::size_t arrays_bytes(std::size_t rows, std::size_t record_bytes) const noexcept;
};

/// The failure for a sample without the field; lists the fields that it has.
Status missing_field(const SampleView& sample);

/// Sets `out` to the bytes of one padding element; false if the dtype cannot represent the value
/// exactly.
bool put_pad(Dtype dtype, double value, std::vector<std::byte>& out);

/// Arrays of a batch begin at multiples of this.
inline constexpr std::size_t kArrayAlignBytes = 64;
constexpr std::size_t align_array(std::size_t size_bytes) noexcept {
  return (size_bytes + kArrayAlignBytes - 1) / kArrayAlignBytes * kArrayAlignBytes;
}

/// Makes the decoders. What the specs do not specify is taken from the dataset's first readable
/// sample: one shape for the whole run, so that the memory is known and a sample that differs is
/// reported in any batch. `invalid_argument` if that sample lacks the field.
Result<FieldPlan> make_field_plan(std::span<const FieldSpec> fields, const ShardDataset& dataset);

/// `invalid_argument` if another dataset of the same loader has text where the plan's dataset has
/// plain elements. Other differences are errors when the samples are read.
Status check_field_plan(const FieldPlan& plan, const ShardDataset& other);

}  // namespace stoker::internal
