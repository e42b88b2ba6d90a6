#include "dataset/input/fit_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "dataset/input/input.h"
#include "formats/arrays/npy.h"
#include "formats/json/strict_json.h"
#include "formats/webdataset/webdataset_names.h"

namespace stoker {
namespace {

template <typename T>
T load_at(std::span<const std::byte> bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

Result<Dtype> dtype_of(const FieldView& field) {
  switch (field.type) {
    case FieldType::int64: return Dtype::int64;
    case FieldType::float32: return Dtype::float32;
    case FieldType::float64: return Dtype::float64;
    default: break;
  }
  Result<Dtype> dtype = dtype_from_descr(field.dtype);
  if (!dtype.ok())
    return Status(Code::invalid_argument, fmt::format("field {}: {} has no form in this format",
                                                      quote_for_message(field.name), field.dtype));
  return dtype;
}

std::string name_for_message(const FieldView& field) {
  return "field " + quote_for_message(field.name);
}

bool is_number(const FieldView& field) {
  return field.type == FieldType::int64 || field.type == FieldType::float32 ||
         field.type == FieldType::float64;
}

/// Digits enough to read the same number back.
std::string text_of(const FieldView& field) {
  if (field.type == FieldType::int64)
    return fmt::format("{}", load_at<std::int64_t>(field.bytes, 0));
  if (field.type == FieldType::float32) return fmt::format("{}", load_at<float>(field.bytes, 0));
  return fmt::format("{}", load_at<double>(field.bytes, 0));
}

Status fit_tar(SampleView& sample, FieldView& field) {
  STOKER_ASSIGN(const Dtype dtype, dtype_of(field));
  if (is_number(field) && field.bytes.size() == dtype_size_bytes(dtype)) {
    const std::string_view text = internal::keep_text(sample, text_of(field));
    field = {.name = field.name, .bytes = std::as_bytes(std::span(text)), .type = FieldType::text};
    return {};
  }
  const std::uint64_t count = field.bytes.size() / dtype_size_bytes(dtype);
  const std::span<const std::uint64_t> shape =
      field.type == FieldType::array ? field.shape : std::span(&count, 1);
  STOKER_ASSIGN(std::vector<std::byte> npy, make_npy_head(dtype, shape));
  npy.insert(npy.end(), field.bytes.begin(), field.bytes.end());
  const std::vector<std::byte>& kept = sample.storage.emplace_back(std::move(npy));
  std::string name(field.name);
  if (!name.ends_with("npy")) name += ".npy";
  field = {.name = internal::keep_text(sample, name), .bytes = kept, .type = FieldType::bytes};
  return {};
}

/// Readers turn the names in a tar into lower case.
void lower_name(SampleView& sample, FieldView& field) {
  if (is_lower_case(field.name)) return;
  std::string name(field.name);
  std::transform(name.begin(), name.end(), name.begin(), to_lower_case);
  field.name = internal::keep_text(sample, name);
}

template <typename From, typename To>
std::vector<std::byte> convert_all(std::span<const std::byte> bytes) {
  const std::size_t count = bytes.size() / sizeof(From);
  std::vector<std::byte> out(count * sizeof(To));
  for (std::size_t i = 0; i < count; ++i) {
    // NOLINTNEXTLINE(bugprone-signed-char-misuse): an int8 is a number here, no letter
    const To value = static_cast<To>(load_at<From>(bytes, i));
    std::memcpy(out.data() + i * sizeof value, &value, sizeof value);
  }
  return out;
}

/// An infinity that was none would be read back without a word.
Result<float> narrow(double value) {
  const auto narrowed = static_cast<float>(value);
  if (std::isfinite(value) && !std::isfinite(narrowed))
    return Status(Code::invalid_argument,
                  fmt::format("{} is too large for a float32, which is what TFRecord has; use mds "
                              "or tar",
                              value));
  return narrowed;
}

/// The same for an integer, which is not rounded.
Result<float> narrow_integer(double value) {
  STOKER_ASSIGN(const float narrowed, narrow(value));
  if (double{narrowed} != value)
    return Status(Code::invalid_argument,
                  fmt::format("{} is an integer that a float32 would round, and the field has real "
                              "numbers, for which TFRecord has nothing else; use mds or tar",
                              value));
  return narrowed;
}

Result<std::vector<std::byte>> narrow_all(std::span<const std::byte> bytes) {
  std::vector<std::byte> out(bytes.size() / sizeof(double) * sizeof(float));
  for (std::size_t i = 0; i < bytes.size() / sizeof(double); ++i) {
    STOKER_ASSIGN(const float value, narrow(load_at<double>(bytes, i)));
    std::memcpy(out.data() + i * sizeof value, &value, sizeof value);
  }
  return out;
}

/// An Example has int64 and float32, and nothing else for numbers.
Result<std::vector<std::byte>> example_numbers(Dtype dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case Dtype::boolean:
    case Dtype::uint8: return convert_all<std::uint8_t, std::int64_t>(bytes);
    case Dtype::int8: return convert_all<std::int8_t, std::int64_t>(bytes);
    case Dtype::uint16: return convert_all<std::uint16_t, std::int64_t>(bytes);
    case Dtype::int16: return convert_all<std::int16_t, std::int64_t>(bytes);
    case Dtype::uint32: return convert_all<std::uint32_t, std::int64_t>(bytes);
    case Dtype::int32: return convert_all<std::int32_t, std::int64_t>(bytes);
    case Dtype::int64: return convert_all<std::int64_t, std::int64_t>(bytes);
    case Dtype::float32: return convert_all<float, float>(bytes);
    case Dtype::float64: return narrow_all(bytes);
    default: break;
  }
  return Status(Code::invalid_argument,
                fmt::format("TFRecord has no {}; convert to mds or tar", dtype_name(dtype)));
}

Status fit_tfrecord(SampleView& sample, FieldView& field) {
  if (field.type == FieldType::int64 || field.type == FieldType::float32) return {};
  STOKER_ASSIGN(const Dtype dtype, dtype_of(field));
  if (field.type == FieldType::float64 && field.dtype == dtype_descr(Dtype::int64)) {
    const Result<float> number = narrow_integer(load_at<double>(field.bytes, 0));
    if (!number.ok()) return number.status().with_context(name_for_message(field));
  }
  Result<std::vector<std::byte>> numbers = example_numbers(dtype, field.bytes);
  if (!numbers.ok()) return numbers.status().with_context(name_for_message(field));
  const bool is_float = dtype == Dtype::float32 || dtype == Dtype::float64;
  field = {.name = field.name,
           .bytes = sample.storage.emplace_back(*std::move(numbers)),
           .type = is_float ? FieldType::float32 : FieldType::int64};
  return {};
}

/// A list of numbers that came as JSON, and whose type its source knows.
Status fit_tfrecord_list(SampleView& sample, FieldView& field) {
  const std::string_view text(reinterpret_cast<const char*>(field.bytes.data()),
                              field.bytes.size());
  STOKER_ASSIGN(const Json list, parse_strict_json(text, field.name));
  const bool is_float = field.dtype == dtype_descr(Dtype::float64);
  std::vector<std::byte> numbers;
  const auto add = [&numbers](const auto value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    numbers.insert(numbers.end(), bytes.begin(), bytes.end());
  };
  for (const Json& value : list.elements()) {
    const bool is_bool = value.is_boolean();
    if (!is_bool && !value.is_number())
      return Status(Code::invalid_argument, name_for_message(field) + ": not a list of numbers");
    if (!is_float) {
      add(is_bool ? std::int64_t{value.get_bool()} : value.get_int64());
      continue;
    }
    const Result<float> number = is_bool                     ? narrow(value.get_bool())
                                 : value.is_number_integer() ? narrow_integer(value.get_double())
                                                             : narrow(value.get_double());
    if (!number.ok()) return number.status().with_context(name_for_message(field));
    add(*number);
  }
  field = {.name = field.name,
           .bytes = sample.storage.emplace_back(std::move(numbers)),
           .type = is_float ? FieldType::float32 : FieldType::int64};
  return {};
}

/// MDS has no truth values: one is a number, an array of them one of bytes.
void fit_mds(SampleView& sample, FieldView& field) {
  if (field.type != FieldType::array || field.dtype != dtype_descr(Dtype::boolean)) return;
  if (!field.shape.empty() || field.bytes.size() != 1) {
    field.dtype = dtype_descr(Dtype::uint8);
    return;
  }
  const std::int64_t value = std::to_integer<std::uint8_t>(field.bytes[0]) != 0 ? 1 : 0;
  field = {
      .name = field.name, .bytes = internal::keep_number(sample, &value), .type = FieldType::int64};
}

/// Rows and sequences have no shape.
Status fit_tokens(FieldView& field) {
  if (is_number(field)) {
    STOKER_ASSIGN(const Dtype dtype, dtype_of(field));
    field.type = FieldType::array;
    field.dtype = dtype_descr(dtype);
  }
  const bool is_numpy = field.name == "npy" || field.name.ends_with(".npy");
  if (field.type != FieldType::bytes || !is_numpy) return {};
  const Result<NpyArray> array = parse_npy(field.bytes, field.bytes.size());
  if (!array.ok()) return array.status().with_context(name_for_message(field));
  field = {.name = field.name,
           .bytes = field.bytes.subspan(array->data_offset_bytes),
           .type = FieldType::array,
           .dtype = dtype_descr(array->dtype)};
  return {};
}

}  // namespace

Status fit_fields(std::string_view format, SampleView& sample) {
  const bool is_tokens = format == "tokens" || format == "counted" || format == "shard001";
  for (FieldView& field : sample.fields) {
    if (is_tokens) STOKER_TRY(fit_tokens(field));
    if (format == "tar") lower_name(sample, field);
    if (format == "mds") fit_mds(sample, field);
    if (format == "tfrecord" && field.type == FieldType::json && !field.dtype.empty())
      STOKER_TRY(fit_tfrecord_list(sample, field));
    if (!is_number(field) && field.type != FieldType::array) continue;
    if (format == "tar") STOKER_TRY(fit_tar(sample, field));
    if (format == "tfrecord") STOKER_TRY(fit_tfrecord(sample, field));
  }
  return {};
}

}  // namespace stoker
