#include "formats/tfrecord/tfrecord_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/checksum.h"
#include "formats/arrays/field_fit.h"
#include "formats/json/strict_json.h"
#include "formats/tfrecord/tfrecord.h"

namespace stoker {
namespace {

using namespace internal;

template <typename From, typename To>
std::vector<std::byte> convert_all(std::span<const std::byte> bytes) {
  const std::size_t count = bytes.size() / sizeof(From);
  std::vector<std::byte> out(count * sizeof(To));
  for (std::size_t i = 0; i < count; ++i) {
    // NOLINTNEXTLINE(bugprone-signed-char-misuse): an int8 is a number here, not a character
    const To value = static_cast<To>(load_at<From>(bytes, i));
    std::memcpy(out.data() + i * sizeof value, &value, sizeof value);
  }
  return out;
}

/// Fails instead of storing an infinity for a finite number.
Result<float> narrow(double value) {
  const auto narrowed = static_cast<float>(value);
  if (std::isfinite(value) && !std::isfinite(narrowed))
    return Status(Code::invalid_argument,
                  fmt::format("{} is too large for a float32, which is what TFRecord has; use mds "
                              "or tar",
                              value));
  return narrowed;
}

/// Like narrow(), for an integer, which must not be rounded.
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

/// An Example has only int64 and float32 numbers.
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

Status fit_numbers(SampleView& sample, FieldView& field) {
  if (field.type == FieldType::int64 || field.type == FieldType::float32) return {};
  STOKER_ASSIGN(const Dtype dtype, dtype_of(field));
  if (field.type == FieldType::float64 && field.dtype == dtype_descr(Dtype::int64)) {
    STOKER_TRY(narrow_integer(load_at<double>(field.bytes, 0)).status());
  }
  STOKER_ASSIGN(std::vector<std::byte> numbers, example_numbers(dtype, field.bytes));
  const bool is_float = dtype == Dtype::float32 || dtype == Dtype::float64;
  field = {.name = field.name,
           .bytes = sample.storage.emplace_back(std::move(numbers)),
           .type = is_float ? FieldType::float32 : FieldType::int64};
  return {};
}

/// Converts a list of numbers in JSON whose element type the source has stated.
Status fit_list(SampleView& sample, FieldView& field) {
  const std::string_view text(reinterpret_cast<const char*>(field.bytes.data()),
                              field.bytes.size());
  STOKER_ASSIGN(const Json list, parse_strict_json(text, "list"));
  const bool is_float = field.dtype == dtype_descr(Dtype::float64);
  std::vector<std::byte> numbers;
  const auto add = [&numbers](const auto value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    numbers.insert(numbers.end(), bytes.begin(), bytes.end());
  };
  for (const Json& value : list.elements()) {
    const bool is_bool = value.is_boolean();
    if (!is_bool && !value.is_number())
      return Status(Code::invalid_argument, "not a list of numbers");
    if (!is_float) {
      add(is_bool ? std::int64_t{value.get_bool()} : value.get_int64());
      continue;
    }
    STOKER_ASSIGN(const float number, is_bool ? narrow(value.get_bool())
                                      : value.is_number_integer()
                                          ? narrow_integer(value.get_double())
                                          : narrow(value.get_double()));
    add(number);
  }
  field = {.name = field.name,
           .bytes = sample.storage.emplace_back(std::move(numbers)),
           .type = is_float ? FieldType::float32 : FieldType::int64};
  return {};
}

Status fit_tfrecord(SampleView& sample, FieldView& field) {
  if (field.type == FieldType::json && !field.dtype.empty()) STOKER_TRY(fit_list(sample, field));
  if (!is_number(field) && field.type != FieldType::array) return {};
  return fit_numbers(sample, field);
}

}  // namespace

const ShardFormat& tfrecord_format() {
  static constexpr ShardFormat kFormat = {
      .name = "tfrecord",
      .written_as = "tfrecord",
      .has_checksums = true,
      .has_lists = true,
      // Often with a number after the extension: "train.tfrecord-00000-of-01024". Excludes
      // leftovers of a killed pack.
      .is_shard_name =
          [](std::string_view name) {
            constexpr std::array<std::string_view, 7> kBeside = {
                ".idx", ".index", ".json", ".md5", ".sha256", ".crc", ".tmp"};
            return name.find(".tfrec") != std::string_view::npos &&
                   name.find(".staged-") == std::string_view::npos &&
                   std::ranges::none_of(
                       kBeside, [&](std::string_view ending) { return name.ends_with(ending); });
          },
      .is_shard_head =
          [](std::span<const std::byte> head) {
            std::uint32_t crc = 0;
            if (head.size() < kTfRecordHeaderBytes) return false;
            std::memcpy(&crc, head.data() + 8, sizeof crc);
            return crc == masked_crc32c(head.first(8));
          },
      .make_reader = [] { return make_tfrecord_reader(); },
      .make_writer = [](const ShardWriterOptions& options,
                        ByteSink& sink) -> Result<std::unique_ptr<ShardWriter>> {
        return make_tfrecord_writer(sink, {.key_field = options.key_field});
      },
      .fit = fit_tfrecord,
      .ending = "tfrecord"};
  return kFormat;
}

}  // namespace stoker
