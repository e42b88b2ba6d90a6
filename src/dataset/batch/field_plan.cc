#include "dataset/batch/field_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "dataset/batch/field_array.h"
#include "dataset/batch/field_number.h"
#include "formats/json/strict_json.h"

namespace stoker::internal {
namespace {

/// How many samples are tried for one that shows what the fields look like.
constexpr std::uint64_t kTriesMax = 16;

/// Whether it says that samples are plain elements, and how many.
bool has_dimensions(const FieldSpec& spec) {
  return spec.shape && !spec.shape->empty();
}

bool wants_sample(const FieldSpec& spec) {
  switch (spec.kind) {
    case FieldKind::array: return !spec.dtype || !has_dimensions(spec);
    case FieldKind::ragged:
    case FieldKind::pad: return true;  // for the dimensions after the first
    default: return false;
  }
}

Status read_first(const Dataset& dataset, SampleRecord& out) {
  Status first;
  for (std::uint64_t i = 0; i < std::min(kTriesMax, dataset.sample_count()); ++i) {
    const Status status = dataset.read(i, out);
    if (status.ok()) return status;
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
  // In range before the cast, which is undefined otherwise.
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

Status settle_size(PlannedColumn& column) {
  const auto count = element_count_of(column.shape);
  std::uint64_t bytes = 0;
  if (!count || __builtin_mul_overflow(*count, dtype_size_bytes(column.dtype), &bytes) ||
      bytes >= std::uint64_t{1} << 63)
    return Status(Code::invalid_argument,
                  fmt::format("a sample of shape {} is too large", shape_text(column.shape)));
  column.row_bytes = bytes;
  return {};
}

/// Whether a field, of a column to which no dimensions were given, is a number written as text.
/// Some numbers could be plain elements too, "1990" an int32. Text it is then, always: the tars
/// that pack and ingest write have their numbers so. A number of several bytes never is an element
/// just because its neighbour in the first sample is some other word.
Result<bool> is_number_text(const FieldView& field, Dtype dtype) {
  if (field.type != FieldType::bytes || looks_like_npy(field.bytes)) return false;
  if (parse_real(field.bytes).ok()) return true;
  const bool is_printable = std::ranges::all_of(field.bytes, [](std::byte byte) {
    const auto c = std::to_integer<unsigned char>(byte);
    return (c >= ' ' && c <= '~') || (c >= '\t' && c <= '\r');
  });
  if (field.bytes.empty() || !is_printable || dtype_size_bytes(dtype) == 1) return false;
  return Status(Code::invalid_argument,
                fmt::format("it is text and no number; if it is plain elements, give their shape, "
                            "stoker.Array(\"{}\", shape)",
                            dtype_name(dtype)));
}

Status settle_array(PlannedColumn& column, const SampleView& sample) {
  const FieldSpec& spec = column.spec;
  ArrayReader reader;
  ArrayView view;
  if (wants_sample(spec)) {
    const FieldView* field = column.find_in(sample);
    if (field == nullptr)
      return missing_field(sample).with_context(fmt::format(
          "sample {}, field {}", quote_for_message(sample.key), quote_for_message(spec.source())));
    FieldView seen = *field;
    if (spec.kind == FieldKind::array && spec.dtype) {
      STOKER_ASSIGN(const bool is_text, is_number_text(seen, *spec.dtype));
      if (is_text) seen.type = FieldType::text;
      column.is_plain = seen.type == FieldType::bytes && !looks_like_npy(seen.bytes);
    }
    STOKER_ASSIGN(view, reader.read(seen, spec.dtype));
    column.is_number = spec.kind == FieldKind::array && !has_dimensions(spec) &&
                       seen.type != FieldType::bytes && view.element_count() == 1;
  }
  column.dtype = spec.dtype ? *spec.dtype : view.dtype;
  if (spec.kind == FieldKind::array) {
    column.shape =
        spec.shape ? *spec.shape : std::vector<std::uint64_t>(view.shape.begin(), view.shape.end());
    return settle_size(column);
  }
  if (view.shape.empty())
    return Status(Code::invalid_argument, "it is a single number: it has no dimension to vary");
  column.shape.assign(view.shape.begin(), view.shape.end());
  if (spec.kind == FieldKind::ragged) {
    column.shape.erase(column.shape.begin());
    return settle_size(column);
  }
  column.shape[0] = spec.pad_length;
  if (!put_pad(column.dtype, spec.pad_value, column.pad_element))
    return Status(Code::invalid_argument,
                  fmt::format("the padding {} is no {}", spec.pad_value, dtype_name(column.dtype)));
  return settle_size(column);
}

Status settle(PlannedColumn& column, const SampleView& sample) {
  switch (column.spec.kind) {
    case FieldKind::int64: column.dtype = Dtype::int64; break;
    case FieldKind::float64: column.dtype = Dtype::float64; break;
    case FieldKind::json:
      column.dtype = column.spec.json_type == JsonType::float64 ? Dtype::float64 : Dtype::int64;
      break;
    case FieldKind::array:
    case FieldKind::ragged:
    case FieldKind::pad: return settle_array(column, sample);
    case FieldKind::tokens:
      return Status(Code::invalid_argument,
                    "it is to be a token window, and no windows were given: see TokenWindows");
    case FieldKind::own:
    case FieldKind::bytes:
    case FieldKind::text: break;
  }
  if (!column.is_views()) column.row_bytes = dtype_size_bytes(column.dtype);
  return {};
}

/// "jpg;jpeg;png" as webdataset writes alternatives. A field may be called so, too.
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
  for (const std::string& name : sources)
    if (const FieldView* field = sample.find(name)) return field;
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
      return value == 0;  // no arithmetic for these here
  }
  return false;
}

bool FieldPlan::keeps_records() const noexcept {
  return all_fields || std::ranges::any_of(columns, [](const PlannedColumn& column) {
           return column.is_views() && !column.is_json_text();
         });
}

std::size_t FieldPlan::arrays_bytes(std::size_t rows, std::size_t record_bytes) const noexcept {
  std::size_t total = 0;
  for (const PlannedColumn& column : columns) {
    if (column.is_views()) continue;
    // Elements of ragged columns lie in the records too; lists of varints, which do not, have the
    // spare memory to go to.
    total +=
        align_array(column.spec.kind == FieldKind::ragged ? record_bytes : rows * column.row_bytes);
  }
  return total;
}

Result<FieldPlan> make_field_plan(std::span<const FieldSpec> fields, const Dataset& dataset) {
  STOKER_TRY(check_fields(fields));
  FieldPlan plan;
  plan.all_fields = fields.empty();
  SampleRecord first;
  if (std::ranges::any_of(fields, wants_sample))
    STOKER_TRY(read_first(dataset, first).with_context("looking at the first sample's fields"));
  for (const FieldSpec& spec : fields) {
    PlannedColumn& column = plan.columns.emplace_back(
        PlannedColumn{.spec = spec, .sources = alternatives_of(spec.source())});
    STOKER_TRY(settle(column, first.view())
                   .with_context(fmt::format("column {}", quote_for_message(spec.name))));
  }
  return plan;
}

Status check_field_plan(const FieldPlan& plan, const Dataset& other) {
  if (std::ranges::none_of(plan.columns, &PlannedColumn::is_plain)) return {};
  SampleRecord first;
  STOKER_TRY(read_first(other, first).with_context("looking at the first sample's fields"));
  for (const PlannedColumn& column : plan.columns) {
    const FieldView* field = column.is_plain ? column.find_in(first.view()) : nullptr;
    if (field == nullptr) continue;
    const Result<bool> is_text = is_number_text(*field, column.dtype);
    if (is_text.ok() && !*is_text) continue;
    return Status(Code::invalid_argument,
                  fmt::format("column {}: it has text, where the first dataset has plain elements. "
                              "Convert one of them; if both are plain elements, give their shape, "
                              "stoker.Array(\"{}\", shape)",
                              quote_for_message(column.spec.name), dtype_name(column.dtype)));
  }
  return {};
}

}  // namespace stoker::internal
