#include "dataset/batch/field_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "formats/json/strict_json.h"
#include "formats/tfrecord/tf_example.h"

namespace stoker::internal {
namespace {

bool is_inside(std::span<const std::byte> part, std::span<const std::byte> whole) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

template <typename T>
void store_at(std::span<std::byte> room, std::size_t row, T value) {
  std::memcpy(room.data() + row * sizeof value, &value, sizeof value);
}

/// `element` repeated over all of `room`.
void fill_with(std::span<std::byte> room, std::span<const std::byte> element) {
  if (std::ranges::all_of(element, [](std::byte b) { return b == std::byte{0}; })) {
    std::memset(room.data(), 0, room.size());
    return;
  }
  for (std::size_t at = 0; at < room.size(); at += element.size())
    std::memcpy(room.data() + at, element.data(), element.size());
}

ColumnStore& store_of(BatchData& batch, std::size_t index) {
  while (batch.stores.size() <= index) batch.stores.push_back(std::make_unique<ColumnStore>());
  return *batch.stores[index];
}

}  // namespace

void FieldColumns::begin(BatchData& batch, std::size_t rows) {
  batch_ = &batch;
  rows_ = rows;
  store_count_ = 0;
  const std::span<std::byte> arrays = batch.arrays.bytes();
  std::size_t used = 0;
  const std::size_t fixed = plan_->arrays_bytes(rows, 0);
  const auto ragged_count = std::ranges::count_if(plan_->columns, [](const PlannedColumn& column) {
    return column.spec.kind == FieldKind::ragged;
  });
  const std::size_t ragged_room = ragged_count == 0 ? 0
                                                    : (arrays.size() - fixed) /
                                                          static_cast<std::size_t>(ragged_count) /
                                                          kArrayAlignBytes * kArrayAlignBytes;
  for (std::size_t i = 0; i < plan_->columns.size(); ++i) {
    const PlannedColumn& column = plan_->columns[i];
    ColumnStore& store = store_of(batch, i);
    store.name = column.spec.name;
    store.shape.clear();
    store.offsets.clear();
    store.lengths.clear();
    store.views.clear();
    store.fields.clear();
    if (column.spec.kind == FieldKind::own) store.fields.resize(rows);
    if (column.is_views()) {
      store.views.resize(rows);
      continue;
    }
    const bool is_ragged = column.spec.kind == FieldKind::ragged;
    if (is_ragged) store.offsets.assign(rows + 1, 0);
    if (column.spec.kind == FieldKind::pad) store.lengths.assign(rows, 0);
    const std::size_t size = is_ragged ? ragged_room : align_array(rows * column.row_bytes);
    places_[i].room = arrays.subspan(used, size);
    used += size;
  }
}

std::span<const std::byte> FieldColumns::lasting(std::span<const std::byte> bytes,
                                                 std::span<const std::byte> record) {
  // A view without an address stands for a field that is not there; an empty record has none.
  static constexpr std::byte kEmpty{};
  if (bytes.empty()) return {&kEmpty, 0};
  return is_inside(bytes, record) ? bytes : batch_->spare.keep(bytes);
}

std::size_t FieldColumns::find_or_add_store(std::string_view name, std::size_t hint) {
  // Samples mostly have the same fields in the same order, so the first guess is right.
  if (hint < store_count_ && batch_->stores[hint]->name == name) return hint;
  for (std::size_t i = 0; i < store_count_; ++i)
    if (batch_->stores[i]->name == name) return i;
  ColumnStore& store = store_of(*batch_, store_count_);
  store.name = name;
  store.views.assign(rows_, {});
  store.fields.assign(rows_, {});
  store.shape.clear();
  store.offsets.clear();
  store.lengths.clear();
  return store_count_++;
}

void FieldColumns::set_all_fields(std::size_t row, const SampleView& sample,
                                  std::span<const std::byte> record) {
  for (std::size_t i = 0; i < sample.fields.size(); ++i) {
    const std::size_t store = find_or_add_store(sample.fields[i].name, i);
    set_own(*batch_->stores[store], row, sample.fields[i], record);
  }
}

void FieldColumns::set_own(ColumnStore& store, std::size_t row, const FieldView& field,
                           std::span<const std::byte> record) {
  store.fields[row] = lasting_field(field, record);
  store.views[row] = store.fields[row].bytes;
}

FieldView FieldColumns::lasting_field(const FieldView& field, std::span<const std::byte> record) {
  FieldView kept{.name = {}, .bytes = lasting(field.bytes, record), .type = field.type};
  if (field.dtype == kBytesListDtype) {
    kept.dtype = kBytesListDtype;
  } else if (!field.dtype.empty()) {
    // What no dtype has as its name stays empty, which is none either.
    const Result<Dtype> dtype = dtype_from_descr(field.dtype);
    if (dtype.ok()) kept.dtype = dtype_descr(*dtype);
  }
  if (!field.shape.empty()) {
    const std::span<const std::byte> shape = batch_->spare.keep(std::as_bytes(field.shape));
    kept.shape = {reinterpret_cast<const std::uint64_t*>(shape.data()), field.shape.size()};
  }
  return kept;
}

Status FieldColumns::set_row(std::size_t row, const SampleView& sample,
                             std::span<const std::byte> record) {
  if (plan_->all_fields) {
    set_all_fields(row, sample, record);
    return {};
  }
  json_.begin_sample();
  for (std::size_t i = 0; i < plan_->columns.size(); ++i) {
    const Status status = set_field(i, row, sample, record);
    if (!status.ok())
      return status.with_context(
          fmt::format("field {}", quote_for_message(plan_->columns[i].spec.source())));
  }
  return {};
}

Status FieldColumns::set_field(std::size_t index, std::size_t row, const SampleView& sample,
                               std::span<const std::byte> record) {
  const PlannedColumn& column = plan_->columns[index];
  const FieldView* field = column.find_in(sample);
  if (field == nullptr) return missing_field(sample);
  switch (column.spec.kind) {
    case FieldKind::own: {
      ColumnStore& store = *batch_->stores[index];
      set_own(store, row, *field, record);
      const auto name = lasting(std::as_bytes(std::span(field->name)), record);
      store.fields[row].name = {reinterpret_cast<const char*>(name.data()), name.size()};
      return {};
    }
    case FieldKind::text: STOKER_TRY(check_text(*field)); [[fallthrough]];
    case FieldKind::bytes:
      batch_->stores[index]->views[row] = lasting(field->bytes, record);
      return {};
    case FieldKind::int64: {
      STOKER_ASSIGN(const std::int64_t value, read_int64(*field, arrays_));
      store_at(places_[index].room, row, value);
      return {};
    }
    case FieldKind::float64: {
      STOKER_ASSIGN(const double value, read_float64(*field, arrays_));
      store_at(places_[index].room, row, value);
      return {};
    }
    case FieldKind::json: return set_json(column, index, row, *field);
    default: return set_array(column, index, row, *field);
  }
}

Status FieldColumns::set_json(const PlannedColumn& column, std::size_t index, std::size_t row,
                              const FieldView& field) {
  STOKER_ASSIGN(const Json* value, json_.find(field, column.spec.json_path));
  switch (column.spec.json_type) {
    case JsonType::int64: {
      STOKER_ASSIGN(const std::int64_t number, json_int64(*value));
      store_at(places_[index].room, row, number);
      return {};
    }
    case JsonType::float64: {
      STOKER_ASSIGN(const double number, json_float64(*value));
      store_at(places_[index].room, row, number);
      return {};
    }
    case JsonType::text: break;
  }
  if (!value->is_string())
    return Status(Code::invalid_argument,
                  fmt::format("its JSON value is {}, not text", value->type_name()));
  const std::string& text = value->get_string();
  batch_->stores[index]->views[row] = batch_->spare.keep(std::as_bytes(std::span(text)));
  return {};
}

Status FieldColumns::set_array(const PlannedColumn& column, std::size_t index, std::size_t row,
                               const FieldView& field) {
  const std::span<const std::uint64_t> wanted = column.shape;
  ArrayReader::Shape shape_if_flat;
  if (column.spec.kind == FieldKind::array) shape_if_flat = wanted;
  FieldView as_text = field;
  as_text.type = FieldType::text;
  const bool is_number_text =
      column.is_number && field.type == FieldType::bytes && !looks_like_npy(field.bytes);
  STOKER_ASSIGN(const ArrayView view,
                arrays_.read(is_number_text ? as_text : field, column.dtype, shape_if_flat));
  if (column.spec.kind == FieldKind::ragged) return set_ragged(column, index, row, view);
  if (column.spec.kind == FieldKind::pad) return set_padded(column, index, row, view);
  if (!std::ranges::equal(view.shape, wanted))
    return Status(Code::invalid_argument,
                  fmt::format("its shape is {}, and that of the column is {}: samples of several "
                              "shapes need a ragged or a padded column",
                              shape_text(view.shape), shape_text(wanted)));
  if (column.row_bytes > 0)
    std::memcpy(places_[index].room.data() + row * column.row_bytes, view.data.data(),
                column.row_bytes);
  return {};
}

Status FieldColumns::set_ragged(const PlannedColumn& column, std::size_t index, std::size_t row,
                                const ArrayView& view) {
  if (view.shape.empty() || !std::ranges::equal(view.shape.subspan(1), column.shape))
    return Status(Code::invalid_argument,
                  fmt::format("its shape is {}, and after the first dimension it is to be {}",
                              shape_text(view.shape), shape_text(column.shape)));
  std::vector<std::uint64_t>& offsets = batch_->stores[index]->offsets;
  std::span<std::byte>& room = places_[index].room;
  const std::size_t begin = offsets[row] * column.row_bytes;
  if (begin + view.data.size() > room.size()) {
    const std::span<std::byte> larger =
        batch_->spare.take(std::max(begin + view.data.size(), 2 * room.size()));
    std::ranges::copy(room.first(begin), larger.begin());
    room = larger;
  }
  if (!view.data.empty()) std::memcpy(room.data() + begin, view.data.data(), view.data.size());
  offsets[row + 1] = offsets[row] + view.shape[0];
  return {};
}

Status FieldColumns::set_padded(const PlannedColumn& column, std::size_t index, std::size_t row,
                                const ArrayView& view) {
  const std::span<const std::uint64_t> wanted = column.shape;
  if (view.shape.empty() || !std::ranges::equal(view.shape.subspan(1), wanted.subspan(1)))
    return Status(Code::invalid_argument,
                  fmt::format("its shape is {}, and after the first dimension it is to be {}",
                              shape_text(view.shape), shape_text(wanted.subspan(1))));
  if (view.shape[0] > wanted[0] && !column.spec.pad_cut)
    return Status(
        Code::invalid_argument,
        fmt::format("its length is {}, more than the {} to pad to", view.shape[0], wanted[0]));
  const std::size_t size = std::min(view.data.size(), column.row_bytes);
  const std::span<std::byte> room =
      places_[index].room.subspan(row * column.row_bytes, column.row_bytes);
  if (size > 0) std::memcpy(room.data(), view.data.data(), size);
  fill_with(room.subspan(size), column.pad_element);
  batch_->stores[index]->lengths[row] = std::min(view.shape[0], wanted[0]);
  return {};
}

void FieldColumns::finish() {
  std::vector<Column>& columns = batch_->columns;
  columns.clear();
  const std::size_t count = plan_->all_fields ? store_count_ : plan_->columns.size();
  for (std::size_t i = 0; i < count; ++i) {
    ColumnStore& store = *batch_->stores[i];
    Column& out = columns.emplace_back();
    out.name = store.name;
    out.views = store.views;
    out.fields = store.fields;
    if (plan_->all_fields) continue;
    const PlannedColumn& column = plan_->columns[i];
    if (column.is_views()) {
      out.is_text = column.spec.kind == FieldKind::text || column.is_json_text();
      continue;
    }
    const bool is_ragged = column.spec.kind == FieldKind::ragged;
    out.layout = is_ragged ? Column::Layout::ragged : Column::Layout::array;
    out.dtype = column.dtype;
    const std::uint64_t first = is_ragged ? store.offsets.back() : rows_;
    store.shape.assign(1, first);
    store.shape.insert(store.shape.end(), column.shape.begin(), column.shape.end());
    out.shape = store.shape;
    out.data = places_[i].room.first(first * column.row_bytes);
    out.offsets = store.offsets;
    out.lengths = store.lengths;
  }
}

}  // namespace stoker::internal
