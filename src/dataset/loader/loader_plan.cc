#include "dataset/loader/loader_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "dataset/loader/loader_order.h"
#include "io/engine/buffer_pool.h"

namespace stoker::internal {
namespace {

Status check_options(const LoaderRunOptions& options) {
  if (options.datasets.empty()) return Status(Code::invalid_argument, "a loader needs a dataset");
  for (const auto& dataset : options.datasets)
    if (!dataset) return Status(Code::invalid_argument, "a dataset is missing (null)");
  if (!options.order && options.datasets.size() != 1)
    return Status(Code::invalid_argument, "a loader of several datasets needs an order");
  if (!options.order) return {};
  if (options.order->dataset_count() != options.datasets.size())
    return Status(Code::invalid_argument,
                  fmt::format("the order is for {} datasets, but {} were given",
                              options.order->dataset_count(), options.datasets.size()));
  return {};
}

Status check_position(const LoaderRunOptions& options) {
  if (options.cursor.position <= options.order->epoch_samples()) return {};
  return Status(Code::invalid_argument,
                fmt::format("the cursor's position {} is past the {} samples of an epoch",
                            options.cursor.position, options.order->epoch_samples()));
}

bool is_integer(Dtype dtype) {
  return dtype != Dtype::float16 && dtype != Dtype::float32 && dtype != Dtype::float64 &&
         dtype != Dtype::bfloat16;
}

/// A column of int32 IDs with the same shape as the tokens.
TokenColumn id_column(std::string_view name, const TokenUnits& units) {
  return {.name = std::string(name),
          .dtype = Dtype::int32,
          .length = units.tokens_per_row(),
          .row_bytes = units.tokens_per_row() * sizeof(std::int32_t)};
}

/// The column of the tokens; for packs also the position and document IDs.
Result<std::vector<TokenColumn>> plan_token_columns(const LoaderRunOptions& options,
                                                    const TokenUnits& units) {
  if (options.fields.size() > 1 ||
      (options.fields.size() == 1 && options.fields[0].kind != FieldKind::tokens))
    return Status(Code::invalid_argument,
                  fmt::format("token {} have one column, of the kind \"tokens\"",
                              units.is_packs() ? "packs" : "windows"));
  STOKER_TRY(check_fields(options.fields));
  const FieldSpec spec = options.fields.empty() ? FieldSpec{.name = "tokens"} : options.fields[0];
  for (std::uint32_t i = 0; i < options.datasets.size() && spec.dtype; ++i)
    if (!is_integer(units.dtype(i)))
      return Status(Code::invalid_argument, fmt::format("tokens of {} cannot be widened to int64",
                                                        dtype_name(units.dtype(i))));
  TokenColumn column{.name = spec.name,
                     .dtype = spec.dtype.value_or(units.dtype(0)),
                     .length = units.tokens_per_row()};
  column.row_bytes = column.length * dtype_size_bytes(column.dtype);
  column.is_widened = spec.dtype.has_value();
  if (!units.is_packs()) return std::vector{std::move(column)};
  if (column.name == kPositionIds || column.name == kDocumentIds)
    return Status(
        Code::invalid_argument,
        fmt::format("packs already have a column {}: give the tokens another name", column.name));
  if (!put_pad(column.dtype, spec.pad_value, column.pad_element))
    return Status(Code::invalid_argument, fmt::format("the padding {} is not a valid {}",
                                                      spec.pad_value, dtype_name(column.dtype)));
  return std::vector{std::move(column), id_column(kPositionIds, units),
                     id_column(kDocumentIds, units)};
}

}  // namespace

Result<LoaderPlan> LoaderPlan::make(LoaderRunOptions options) {
  STOKER_TRY(check_options(options));
  if (!options.order) {
    STOKER_ASSIGN(options.cursor.order, resolve_order(options));
    STOKER_ASSIGN(options.order, make_order(options.cursor.order));
  }
  STOKER_TRY(check_position(options));
  options.cut.epoch_samples = options.order->epoch_samples();
  STOKER_ASSIGN(const BatchCut cut, BatchCut::make(options.cut));
  options.cursor.tail = options.cut.tail;
  options.cursor.global_batch_size = options.cut.global_batch_size;
  STOKER_ASSIGN(TokenUnits tokens, TokenUnits::make(options));
  FieldPlan fields;
  std::vector<TokenColumn> token_columns;
  if (tokens.is_any()) {
    STOKER_ASSIGN(token_columns, plan_token_columns(options, tokens));
  } else {
    STOKER_ASSIGN(fields, make_field_plan(options.fields, *options.datasets.front()));
    for (std::size_t i = 1; i < options.datasets.size(); ++i)
      STOKER_TRY(check_field_plan(fields, *options.datasets[i])
                     .with_context(fmt::format("dataset {} of the mixture", i)));
  }
  auto datasets = std::make_shared<const DatasetList>(options.datasets);
  return LoaderPlan{.options = std::move(options),
                    .cut = cut,
                    .fields = std::move(fields),
                    .token_columns = std::move(token_columns),
                    .tokens = std::move(tokens),
                    .datasets = std::move(datasets)};
}

LoaderPlan::Place LoaderPlan::place(std::uint64_t number) const noexcept {
  const Cursor& start = options.cursor;
  const std::uint64_t size = cut.options().global_batch_size;
  const std::uint64_t per_step = cut.micro_batches_per_step();  // only an epoch's last has fewer
  const std::uint64_t first = cut.micro_batches_from(start.position);
  if (number < first)
    return {start.epoch, start.position + number / per_step * size, number % per_step};
  const std::uint64_t per_epoch = cut.micro_batches_from(0);
  const std::uint64_t in_epoch = (number - first) % per_epoch;
  return {start.epoch + 1 + (number - first) / per_epoch, in_epoch / per_step * size,
          in_epoch % per_step};
}

std::optional<std::uint64_t> LoaderPlan::batch_count() const noexcept {
  if (!options.end_epoch) return std::nullopt;
  const Cursor& start = options.cursor;
  if (start.epoch >= *options.end_epoch) return 0;
  return cut.micro_batches_from(start.position) +
         (*options.end_epoch - start.epoch - 1) * cut.micro_batches_from(0);
}

void LoaderPlan::begin_batch(std::uint64_t number, BatchData& out) const {
  const Place at = place(number);
  const BatchCut::Part part = cut.part(at.position, at.micro_batch);
  out.number = number;
  out.epoch = at.epoch;
  out.position = at.position;
  out.micro_batch = at.micro_batch;
  out.last = at.micro_batch + 1 == cut.micro_batches_at(at.position);
  out.cursor = options.cursor;
  out.cursor.epoch = at.epoch;
  out.cursor.position = out.last ? cut.next_position(at.position) : at.position;
  out.positions.resize(part.count);
  for (std::uint64_t slot = 0; slot < part.count; ++slot)
    out.positions[slot] = cut.position_of(part, slot);
  out.samples.resize(part.count);
  options.order->fill(at.epoch, part.first_position, out.samples);
  out.valid.assign(part.count, 0);
  std::fill_n(out.valid.begin(), part.valid_count, std::uint8_t{1});
  out.datasets = is_tokens() ? nullptr : datasets;
}

std::uint64_t LoaderPlan::unit_count(std::uint32_t dataset) const noexcept {
  return is_tokens() ? tokens.count(dataset) : (*datasets)[dataset]->sample_count();
}

std::size_t LoaderPlan::BatchMemory::pooled_bytes() const noexcept {
  std::size_t total = 0;
  if (records_bytes > 0) total += BufferPool::size_class_bytes(records_bytes);
  if (arrays_bytes > 0) total += BufferPool::size_class_bytes(arrays_bytes);
  return total;
}

LoaderPlan::BatchMemory LoaderPlan::batch_memory_max() const {
  const std::uint64_t rows = cut.micro_batch_size();
  if (is_tokens()) {
    const std::uint64_t pieces = std::min<std::uint64_t>(rows * tokens.pieces_max(), kPiecesAtOnce);
    return {.records_bytes = RecordFetcher::rows_memory_bytes_max(rows * tokens.row_bytes_max(),
                                                                  pieces, options.fetch),
            .arrays_bytes = token_arrays_bytes(rows)};
  }
  // In a mixture any split is possible. Two upper bounds hold: a full batch from each dataset, and
  // the largest sample in every slot.
  std::size_t from_each = 0;
  for (const auto& dataset : *datasets)
    from_each += RecordFetcher::memory_bytes_max(*dataset, rows, options.fetch);
  const std::size_t records = std::min(from_each, rows * largest_sample_bytes());
  return {.records_bytes = records, .arrays_bytes = fields.arrays_bytes(rows, records)};
}

std::size_t LoaderPlan::token_arrays_bytes(std::size_t rows) const noexcept {
  std::size_t total = 0;
  for (const TokenColumn& column : token_columns) total += align_array(rows * column.row_bytes);
  return total;
}

std::size_t LoaderPlan::largest_sample_bytes() const {
  std::size_t largest = 0;
  for (const auto& dataset : *datasets)
    largest =
        std::max<std::size_t>(largest, RecordFetcher::memory_bytes_max(*dataset, 1, options.fetch));
  return largest;
}

std::size_t LoaderPlan::memory_needed() const {
  const std::size_t largest = is_tokens() ? 0 : largest_sample_bytes();
  return 3 * batch_memory_max().pooled_bytes() + BufferPool::size_class_bytes(largest);
}

}  // namespace stoker::internal
