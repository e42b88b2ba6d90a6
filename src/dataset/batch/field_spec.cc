#include <fmt/format.h>

#include "dataset/batch/field_array.h"
#include "formats/json/strict_json.h"
#include "stoker/fields.h"

namespace stoker {
namespace {

bool is_array_kind(FieldKind kind) {
  return kind == FieldKind::array || kind == FieldKind::ragged || kind == FieldKind::pad;
}

Status check_field_spec(const FieldSpec& spec) {
  if (spec.dtype && !is_array_kind(spec.kind) && spec.kind != FieldKind::tokens)
    return Status(Code::invalid_argument,
                  fmt::format("a dtype is for arrays, but this is {}", field_kind_name(spec.kind)));
  if (spec.shape && spec.kind != FieldKind::array)
    return Status(Code::invalid_argument,
                  fmt::format("a shape is for arrays, but this is {}", field_kind_name(spec.kind)));
  if (spec.shape && !internal::element_count_of(*spec.shape))
    return Status(Code::invalid_argument, "its shape is too large");
  if (spec.kind == FieldKind::pad && spec.pad_length == 0)
    return Status(Code::invalid_argument, "a length to pad to is missing");
  if ((spec.kind == FieldKind::decoded) != (spec.decoder != nullptr))
    return Status(Code::invalid_argument,
                  "columns of the kind decoded, and only those, need a decoder");
  if (spec.kind == FieldKind::tokens && spec.dtype && *spec.dtype != Dtype::int64)
    return Status(Code::invalid_argument, "tokens keep the dtype of their file or become int64");
  return {};
}

}  // namespace

std::string_view field_kind_name(FieldKind kind) noexcept {
  switch (kind) {
    case FieldKind::own: return "own";
    case FieldKind::bytes: return "bytes";
    case FieldKind::text: return "text";
    case FieldKind::int64: return "int64";
    case FieldKind::float64: return "float64";
    case FieldKind::boolean: return "bool";
    case FieldKind::json: return "json";
    case FieldKind::array: return "array";
    case FieldKind::ragged: return "ragged";
    case FieldKind::pad: return "pad";
    case FieldKind::tokens: return "tokens";
    case FieldKind::decoded: return "decoded";
  }
  return "unknown";
}

Status check_fields(std::span<const FieldSpec> fields) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name.empty())
      return Status(Code::invalid_argument, fmt::format("column {} has no name", i));
    for (std::size_t k = 0; k < i; ++k)
      if (fields[k].name == fields[i].name)
        return Status(Code::invalid_argument, fmt::format("two columns have the name {}",
                                                          quote_for_message(fields[i].name)));
    STOKER_TRY(check_field_spec(fields[i]).with_context(
        fmt::format("column {}", quote_for_message(fields[i].name))));
  }
  return {};
}

}  // namespace stoker
