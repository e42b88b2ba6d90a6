#include "dataset/loader/field_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "dataset/order/sample_split.h"
#include "formats/json/strict_json.h"

namespace stoker {
namespace {

/// Whether the sample has the field, or one of the alternatives in its name.
bool has_field(const SampleView& sample, std::string_view source) {
  if (sample.find(source) != nullptr) return true;
  for (std::size_t begin = 0; begin <= source.size();) {
    const std::size_t end = std::min(source.find(';', begin), source.size());
    if (sample.find(source.substr(begin, end - begin)) != nullptr) return true;
    begin = end + 1;
  }
  return false;
}

/// Reads the first or the last sample of a part; false if it cannot be read or does not exist.
bool read_sample(const LoaderPart& part, bool is_last, SampleRecord& out) {
  const std::uint64_t count = part.selected_count();
  if (count == 0) return false;
  const std::uint64_t number = is_last ? count - 1 : 0;
  const std::uint64_t sample = part.selection ? selected_sample(*part.selection, number) : number;
  return part.dataset->read(sample, out).ok();
}

Status check_part(const LoaderPart& part, std::span<const FieldSpec> fields) {
  SampleRecord first;
  SampleRecord last;
  if (part.windows || part.packs || !read_sample(part, false, first)) return {};
  const auto missing = std::ranges::find_if(
      fields, [&](const FieldSpec& field) { return !has_field(first.view(), field.source()); });
  if (missing == fields.end() || !read_sample(part, true, last) ||
      has_field(last.view(), missing->source()))
    return {};
  std::string names;
  for (const FieldView& field : first.view().fields)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", quote_for_message(field.name));
  return Status(Code::invalid_argument, fmt::format("no field {} in sample {}; it has {}",
                                                    quote_for_message(missing->source()),
                                                    quote_for_message(first.key()), names));
}

}  // namespace

Status check_fields_exist(std::span<const LoaderPart> parts, std::span<const FieldSpec> fields) {
  if (fields.empty()) return {};
  for (const LoaderPart& part : parts) STOKER_TRY(check_part(part, fields));
  return {};
}

}  // namespace stoker
