#include "dataset/batch/field_columns.h"

#include <fmt/format.h>

#include "dataset/batch/column_decoders.h"
#include "formats/json/strict_json.h"

namespace stoker::internal {
namespace {

/// Returns store `index` of the batch, emptied.
ColumnStore& fresh_store(BatchData& batch, std::size_t index, std::string_view name) {
  while (batch.stores.size() <= index) batch.stores.push_back(std::make_unique<ColumnStore>());
  ColumnStore& store = *batch.stores[index];
  store.name = name;
  store.shape.clear();
  store.offsets.clear();
  store.lengths.clear();
  store.views.clear();
  store.fields.clear();
  return store;
}

}  // namespace

FieldColumns::FieldColumns(const FieldPlan& plan, std::uint64_t seed) : plan_(&plan), seed_(seed) {
  for (const PlannedColumn& column : plan.columns) decoders_.push_back(column.decoder->clone());
}

void FieldColumns::begin(BatchData& batch, std::size_t rows, std::size_t record_bytes) {
  batch_ = &batch;
  rows_ = rows;
  store_count_ = 0;
  std::size_t used = 0;
  for (std::size_t i = 0; i < decoders_.size(); ++i) {
    const std::size_t size = decoders_[i]->array_bytes(rows, record_bytes);
    decoders_[i]->begin({.arrays = batch.arrays.bytes().subspan(used, size),
                         .store = &fresh_store(batch, i, plan_->columns[i].name),
                         .spare = &batch.spare},
                        rows);
    used += align_array(size);
  }
}

std::size_t FieldColumns::find_or_add_store(std::string_view name, std::size_t hint) {
  // Samples mostly have the same fields in the same order, so the hint is usually right.
  if (hint < store_count_ && batch_->stores[hint]->name == name) return hint;
  for (std::size_t i = 0; i < store_count_; ++i)
    if (batch_->stores[i]->name == name) return i;
  ColumnStore& store = fresh_store(*batch_, store_count_, name);
  store.views.resize(rows_);
  store.fields.resize(rows_);
  return store_count_++;
}

void FieldColumns::set_all_fields(std::size_t row, const SampleView& sample,
                                  std::span<const std::byte> record) {
  for (std::size_t i = 0; i < sample.fields.size(); ++i) {
    ColumnStore& store = *batch_->stores[find_or_add_store(sample.fields[i].name, i)];
    store.fields[row] = lasting_field(sample.fields[i], record, batch_->spare);
    store.views[row] = store.fields[row].bytes;
  }
}

Status FieldColumns::set_row(std::size_t row, const SampleView& sample,
                             std::span<const std::byte> record) {
  if (plan_->all_fields) {
    set_all_fields(row, sample, record);
    return {};
  }
  json_.begin_sample();
  const RowContext context{
      {.seed = seed_, .epoch = batch_->epoch, .position = batch_->positions[row], .record = record},
      &json_};
  for (std::size_t i = 0; i < decoders_.size(); ++i) {
    const PlannedColumn& column = plan_->columns[i];
    const FieldView* field = column.find_in(sample);
    const Status status =
        field == nullptr ? missing_field(sample) : decoders_[i]->set_row(row, *field, context);
    if (!status.ok())
      return status.with_context(
          fmt::format("field {}", quote_for_message(column.sources.front())));
  }
  return {};
}

void FieldColumns::finish() {
  std::vector<Column>& columns = batch_->columns;
  columns.clear();
  const std::size_t count = plan_->all_fields ? store_count_ : decoders_.size();
  for (std::size_t i = 0; i < count; ++i) {
    ColumnStore& store = *batch_->stores[i];
    Column& out = columns.emplace_back();
    out.name = store.name;
    if (plan_->all_fields) {
      out.views = store.views;
      out.fields = store.fields;
    } else {
      decoders_[i]->finish(out);
    }
  }
}

}  // namespace stoker::internal
