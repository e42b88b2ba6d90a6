#include "dataset/batch/field_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "dataset/batch/column_decoders.h"
#include "formats/json/strict_json.h"

namespace stoker::internal {
namespace {

/// Maximum number of samples tried to find a readable one.
constexpr std::uint64_t kTriesMax = 16;

/// Returns the number of the sample.
Result<std::uint64_t> read_first(const ShardDataset& dataset, SampleRecord& out) {
  Status first;
  for (std::uint64_t i = 0; i < std::min(kTriesMax, dataset.sample_count()); ++i) {
    const Status status = dataset.read(i, out);
    if (status.ok()) return i;
    if (first.ok()) first = status;
  }
  if (first.ok()) return Status(Code::invalid_argument, "the dataset has no samples");
  return first;
}

std::string names_of(const SampleView& sample) {
  std::string names;
  for (const FieldView& field : sample.fields) {
    if (!names.empty()) names += ", ";
    names += quote_for_message(field.name);
  }
  return names;
}

template <typename T>
bool put_exact(double value, std::vector<std::byte>& out) {
  // The value must be in range before the cast, which is undefined otherwise.
  if (!(value >= static_cast<double>(std::numeric_limits<T>::lowest()) &&
        value <= static_cast<double>(std::numeric_limits<T>::max())) &&
      std::is_integral_v<T>)
    return false;
  if (std::is_integral_v<T> && value >= 0x1p63) return false;
  const T exact = static_cast<T>(value);
  out.resize(sizeof exact);
  std::memcpy(out.data(), &exact, sizeof exact);
  return static_cast<double>(exact) == value || std::isnan(value);
}

/// Splits "jpg;jpeg;png", webdataset's notation for alternatives. A field may also have that whole
/// name.
std::vector<std::string> alternatives_of(std::string_view source) {
  std::vector<std::string> names = {std::string(source)};
  if (source.find(';') == std::string_view::npos) return names;
  for (std::string_view rest = source; !rest.empty();) {
    const std::size_t end = std::min(rest.find(';'), rest.size());
    if (end > 0) names.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return names;
}

}  // namespace

const FieldView* PlannedColumn::find_in(const SampleView& sample) const noexcept {
  for (const std::string& source : sources)
    if (const FieldView* field = sample.find(source)) return field;
  return nullptr;
}

Status missing_field(const SampleView& sample) {
  return Status(
      Code::invalid_argument,
      fmt::format("the sample has no such field; it has {}. A name may list alternatives, "
                  "\"jpg;jpeg;png\"",
                  names_of(sample)));
}

bool put_pad(Dtype dtype, double value, std::vector<std::byte>& out) {
  switch (dtype) {
    case Dtype::uint8: return put_exact<std::uint8_t>(value, out);
    case Dtype::int8: return put_exact<std::int8_t>(value, out);
    case Dtype::uint16: return put_exact<std::uint16_t>(value, out);
    case Dtype::int16: return put_exact<std::int16_t>(value, out);
    case Dtype::uint32: return put_exact<std::uint32_t>(value, out);
    case Dtype::int32: return put_exact<std::int32_t>(value, out);
    case Dtype::uint64: return put_exact<std::uint64_t>(value, out);
    case Dtype::int64: return put_exact<std::int64_t>(value, out);
    case Dtype::float32: return put_exact<float>(value, out);
    case Dtype::float64: return put_exact<double>(value, out);
    case Dtype::boolean: return (value == 0 || value == 1) && put_exact<std::uint8_t>(value, out);
    case Dtype::float16:
    case Dtype::bfloat16:
      out.assign(2, std::byte{0});
      return value == 0;  // no conversion to these types here
  }
  return false;
}

bool FieldPlan::keeps_records() const noexcept {
  return all_fields || std::ranges::any_of(columns, [](const PlannedColumn& column) {
           return column.decoder->keeps_records();
         });
}

std::size_t FieldPlan::arrays_bytes(std::size_t rows, std::size_t record_bytes) const noexcept {
  std::size_t total = 0;
  for (const PlannedColumn& column : columns)
    total += align_array(column.decoder->array_bytes(rows, record_bytes));
  return total;
}

Result<std::unique_ptr<ColumnDecoder>> make_decoder(const FieldSpec& spec, const FieldView& seen) {
  switch (spec.kind) {
    case FieldKind::own:
    case FieldKind::bytes:
    case FieldKind::text: return make_view_decoder(spec.kind);
    case FieldKind::int64:
    case FieldKind::float64:
    case FieldKind::boolean: return make_number_decoder(spec);
    case FieldKind::json:
      return spec.json_type == JsonType::text ? make_json_text_decoder(spec)
                                              : make_number_decoder(spec);
    case FieldKind::array:
    case FieldKind::ragged:
    case FieldKind::pad: return make_array_decoder(spec, seen);
    case FieldKind::decoded: return make_program_decoder(*spec.decoder);
    case FieldKind::tokens: break;
  }
  return Status(
      Code::invalid_argument,
      "it is a column of tokens, but no token windows or packs were given: see TokenWindows");
}

Result<FieldPlan> make_field_plan(std::span<const FieldSpec> fields, const ShardDataset& dataset) {
  STOKER_TRY(check_fields(fields));
  FieldPlan plan;
  plan.all_fields = fields.empty();
  SampleRecord first;
  std::uint64_t number = 0;
  if (std::ranges::any_of(fields, wants_sample)) {
    const Result<std::uint64_t> found = read_first(dataset, first);
    if (!found.ok()) return found.status().with_context("looking at the first sample's fields");
    number = *found;
  }
  for (const FieldSpec& spec : fields) {
    PlannedColumn& column = plan.columns.emplace_back(
        PlannedColumn{.name = spec.name, .sources = alternatives_of(spec.source())});
    const auto settle = [&]() -> Result<std::unique_ptr<ColumnDecoder>> {
      if (!wants_sample(spec)) return make_decoder(spec, {});
      const FieldView* const seen = column.find_in(first.view());
      if (seen == nullptr) return missing_field(first.view());
      if (is_plain_elements(spec, *seen)) column.plain_dtype = spec.dtype;
      return make_decoder(spec, *seen);
    };
    Result<std::unique_ptr<ColumnDecoder>> decoder = settle();
    if (!decoder.ok() && wants_sample(spec))
      return decoder.status().with_context(fmt::format(
          "column {}: {}: key {}: field {}", quote_for_message(spec.name), dataset.describe(number),
          quote_for_message(first.view().key), quote_for_message(spec.source())));
    if (!decoder.ok())
      return decoder.status().with_context(fmt::format("column {}", quote_for_message(spec.name)));
    column.decoder = *std::move(decoder);
  }
  return plan;
}

Status check_field_plan(const FieldPlan& plan, const ShardDataset& other) {
  if (std::ranges::none_of(plan.columns,
                           [](const PlannedColumn& c) { return c.plain_dtype.has_value(); }))
    return {};
  SampleRecord first;
  STOKER_TRY(
      read_first(other, first).status().with_context("looking at the first sample's fields"));
  for (const PlannedColumn& column : plan.columns) {
    const FieldView* field = column.plain_dtype ? column.find_in(first.view()) : nullptr;
    if (field == nullptr) continue;
    const Result<bool> is_text = is_number_text(*field, *column.plain_dtype);
    if (is_text.ok() && !*is_text) continue;
    return Status(Code::invalid_argument,
                  fmt::format("column {}: it has text, but the first dataset has plain elements. "
                              "Convert one of them; if both are plain elements, give their shape, "
                              "stoker.Array(\"{}\", shape)",
                              quote_for_message(column.name), dtype_name(*column.plain_dtype)));
  }
  return {};
}

}  // namespace stoker::internal
