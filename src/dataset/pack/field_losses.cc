#include "dataset/pack/field_losses.h"

#include <cmath>
#include <cstring>
#include <string_view>

#include "formats/json/strict_json.h"
#include "stoker/dtype.h"

namespace stoker {
namespace {

template <typename T>
T number_at(std::span<const std::byte> bytes, std::size_t i) {
  T value{};
  std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
  return value;
}

bool differ(double given, float stored) {
  return double{stored} != given && !std::isnan(given);
}

bool is_rounded(const FieldView& given, const FieldView& stored) {
  if (stored.type != FieldType::float32 || given.type == FieldType::float32) return false;
  const std::size_t count = stored.bytes.size() / sizeof(float);
  if (given.type == FieldType::json) {
    const std::string_view text(reinterpret_cast<const char*>(given.bytes.data()),
                                given.bytes.size());
    const Result<Json> list = parse_strict_json(text, "list");
    if (!list.ok() || list->size() != count) return false;
    for (std::size_t i = 0; i < count; ++i)
      if ((*list)[i].is_number_float() &&
          differ((*list)[i].get_double(), number_at<float>(stored.bytes, i)))
        return true;
    return false;
  }
  const bool is_double =
      given.type == FieldType::float64 ||
      (given.type == FieldType::array && given.dtype == dtype_descr(Dtype::float64));
  if (!is_double || given.bytes.size() != count * sizeof(double)) return false;
  for (std::size_t i = 0; i < count; ++i)
    if (differ(number_at<double>(given.bytes, i), number_at<float>(stored.bytes, i))) return true;
  return false;
}

/// Whether a format that stores lists has dropped the shape. A list of one dimension has none.
bool is_flattened(const FieldView& given, const FieldView& stored) {
  return given.type == FieldType::array && given.shape.size() > 1 &&
         (stored.type == FieldType::int64 || stored.type == FieldType::float32);
}

}  // namespace

void add_losses(FieldLosses& losses, const FieldView& given, const FieldView& stored) {
  const std::string_view name = stored.name;
  if (!losses.rounded.contains(name) && is_rounded(given, stored)) losses.rounded.emplace(name);
  if (!losses.flattened.contains(name) && is_flattened(given, stored))
    losses.flattened.emplace(name);
}

void add_losses(FieldLosses& losses, const FieldLosses& others) {
  losses.rounded.insert(others.rounded.begin(), others.rounded.end());
  losses.flattened.insert(others.flattened.begin(), others.flattened.end());
}

std::vector<std::string> remarks_on(const FieldLosses& losses) {
  std::vector<std::string> remarks;
  for (const std::string& name : losses.rounded)
    remarks.push_back("field " + quote_for_message(name) +
                      ": float64 numbers were rounded to float32, because TFRecord has no float64; "
                      "tar and mds keep them");
  for (const std::string& name : losses.flattened)
    remarks.push_back("field " + quote_for_message(name) +
                      ": arrays were stored without their shape, because TFRecord has only lists; "
                      "tar and mds keep it, and fields= of a Loader can give it "
                      "(stoker.Array(dtype, shape))");
  return remarks;
}

}  // namespace stoker
