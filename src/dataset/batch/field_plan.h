/// \file
/// The columns of a run, with everything settled that does not change from batch to batch.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dataset/batch/field_decoder.h"
#include "dataset/batch/field_spec.h"
#include "dataset/dataset.h"
#include "formats/dtype.h"
#include "formats/shard_format.h"
#include "stoker/status.h"

namespace stoker::internal {

struct PlannedColumn {
  std::string name;
  /// The names of the field, the first of which that a sample has is taken.
  std::vector<std::string> sources = {};
  std::shared_ptr<const FieldDecoder> decoder = {};
  /// Of plain elements, as which numbers written as text could be read without an error.
  std::optional<Dtype> plain_dtype = {};

  /// The sample's field; null if it has none of these names.
  const FieldView* find_in(const SampleView& sample) const noexcept;
};

/// Thread safety: immutable.
struct FieldPlan {
  std::vector<PlannedColumn> columns;
  bool all_fields = false;  ///< No columns named: whatever the samples have.

  /// Whether columns look into the records, which then have to live as long as the batch.
  bool keeps_records() const noexcept;
  /// Memory for the arrays of `rows` samples whose records take `record_bytes` of memory.
  std::size_t arrays_bytes(std::size_t rows, std::size_t record_bytes) const noexcept;
};

/// What a sample lacks that has not the field: with the names it has.
Status missing_field(const SampleView& sample);

/// The bytes of one padding element; false if the dtype cannot hold the value exactly.
bool put_pad(Dtype dtype, double value, std::vector<std::byte>& out);

/// Arrays of a batch begin at multiples of this.
inline constexpr std::size_t kArrayAlignBytes = 64;
constexpr std::size_t align_array(std::size_t size_bytes) noexcept {
  return (size_bytes + kArrayAlignBytes - 1) / kArrayAlignBytes * kArrayAlignBytes;
}

/// Makes the decoders, which settle what the specs leave open by the first of a dataset's samples
/// that can be read: one shape for the whole run, so that memory is known and an odd sample is
/// named, whichever batch it is in. `invalid_argument` if that sample lacks the field.
Result<FieldPlan> make_field_plan(std::span<const FieldSpec> fields, const Dataset& dataset);

/// `invalid_argument` if another dataset of the same loader has numbers written as text where the
/// plan's dataset has plain elements. What else differs is an error where it is read.
Status check_field_plan(const FieldPlan& plan, const Dataset& other);

}  // namespace stoker::internal
