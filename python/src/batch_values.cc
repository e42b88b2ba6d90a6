#include "batch_values.h"

#include <algorithm>
#include <string>

#include "bytes_column.h"
#include "dataset/batch/batch_data.h"
#include "raise.h"
#include "sample_object.h"

namespace nb = nanobind;

namespace stoker::python {
namespace {

bool is_absent(std::span<const std::byte> view) {
  return view.data() == nullptr;
}

nb::object value_or_raise_for(const Batch& batch, std::size_t i, Result<nb::object> value) {
  if (value.ok()) return *std::move(value);
  const Batch::Place at = batch.place(i);
  const CorruptPlace place{.path = at.path, .offset_bytes = at.offset_bytes, .key = batch.key(i)};
  raise_if_failed(
      value.status().with_context(at.path + ": byte " + std::to_string(at.offset_bytes) +
                                  ": key \"" + place.key + '"'),
      &place);
  return {};
}

}  // namespace

nb::object batch_values(nb::handle_t<Batch> self, const Column& column) {
  if (column.layout != Column::Layout::views || column.fields.size() != column.views.size() ||
      column.fields.empty())
    return nb::none();
  const auto& batch = nb::cast<const Batch&>(self);
  const bool all_bytes = std::ranges::all_of(
      column.fields, [](const FieldView& field) { return field.type == FieldType::bytes; });
  if (all_bytes)
    return nb::make_tuple(BytesColumn{.batch = nb::borrow(self),
                                      .views = column.views,
                                      .memory = internal::BatchInside::record_memory(batch)},
                          "bytes");
  nb::list values;
  bool has_numbers = false;
  bool has_others = false;
  for (std::size_t i = 0; i < column.fields.size(); ++i) {
    if (is_absent(column.views[i])) {
      values.append(nb::none());
      continue;
    }
    const FieldView& field = column.fields[i];
    const std::string_view name = field.name.empty() ? column.name : field.name;
    const nb::object value = value_or_raise_for(
        batch, i, make_value(field, name, internal::BatchInside::shard_format(batch, i), self));
    const bool is_number = is_numbers(field) || nb::isinstance<nb::int_>(value);
    // A JSON value may be a number too, but only by chance.
    (is_number && field.type != FieldType::json ? has_numbers : has_others) = true;
    values.append(value);
  }
  const char* kind = !has_numbers ? "values" : has_others ? "mixed" : "numbers";
  return nb::make_tuple(values, kind);
}

nb::object batch_presence(const Column& column) {
  if (std::ranges::none_of(column.views, is_absent)) return nb::none();
  nb::list out;
  for (const auto& view : column.views) out.append(nb::bool_(!is_absent(view)));
  return out;
}

}  // namespace stoker::python
