// The writing part of mds_encoding.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "formats/arrays/field_fit.h"
#include "formats/json/strict_json.h"
#include "formats/mds/mds_encoding.h"
#include "formats/mds/mds_ndarray.h"
#include "formats/utf8.h"

namespace stoker {
namespace {

using internal::dtype_of;
using internal::load_at;

Status cannot_hold(const MdsEncoding& encoding, std::string_view reason) {
  return {Code::invalid_argument,
          fmt::format("encoding {}: {}", quote_for_message(encoding.text), reason)};
}

bool is_raw(FieldType type) {
  return type == FieldType::bytes || type == FieldType::text || type == FieldType::json;
}

/// Rejects values that are not numbers where numbers are expected: their bytes might pass as one,
/// and would be read back as a meaningless number.
Status refuse_raw(const MdsEncoding& encoding, const FieldView& field) {
  if (!is_raw(field.type)) return {};
  return cannot_hold(encoding, field.type == FieldType::text   ? "the value is text"
                               : field.type == FieldType::json ? "the value is JSON"
                                                               : "the value is bytes");
}

/// Accepts what Python's json writes and reads beyond the standard: NaN, Infinity and lone
/// surrogates. Existing datasets contain such texts, and they are kept unchanged.
bool is_python_json(std::string_view value) {
  if (is_json(value)) return !value.starts_with("\xef\xbb\xbf");
  std::string text(value);
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = std::string_view(text).substr(i);
    if (text[i] == '"') in_string = !in_string;
    if (!in_string) {
      for (const std::string_view name : {"NaN", "Infinity"})
        if (rest.starts_with(name)) text.replace(i, name.size(), name.size(), '1');
    } else if (text[i] == '\\') {
      if (rest.starts_with("\\ud") || rest.starts_with("\\uD")) text[i + 2] = '0';
      ++i;
    }
  }
  return is_json(text);
}

/// Checks that text is UTF-8 and that JSON is valid.
Status check_readable(const MdsEncoding& encoding, const FieldView& field) {
  if (encoding.type == FieldType::text && !is_utf8(field.bytes))
    return cannot_hold(encoding, "the value is not UTF-8, as text is; a tar holds any bytes");
  const std::string_view text(reinterpret_cast<const char*>(field.bytes.data()),
                              field.bytes.size());
  if (encoding.type == FieldType::json && !is_python_json(text))
    return cannot_hold(encoding, "the value is not JSON; a tar holds any bytes");
  return {};
}

/// As Python's str() writes it: "1.0".
std::string python_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

/// A number as text; text must be one.
Status encode_number_text(const MdsEncoding& encoding, const FieldView& field,
                          std::vector<std::byte>& out) {
  const std::size_t begin = out.size();
  if (is_raw(field.type)) {
    out.insert(out.end(), field.bytes.begin(), field.bytes.end());
  } else {
    STOKER_ASSIGN(const Dtype dtype, dtype_of(field));
    const bool fits =
        encoding.type == FieldType::int64 ? dtype == Dtype::int64 : dtype == Dtype::float64;
    if (!fits || field.bytes.size() != sizeof(std::uint64_t))
      return cannot_hold(encoding, fmt::format("the value is {}, or several", dtype_name(dtype)));
    const std::string text = dtype == Dtype::int64
                                 ? fmt::format("{}", load_at<std::int64_t>(field.bytes, 0))
                                 : python_text(load_at<double>(field.bytes, 0));
    const auto bytes = std::as_bytes(std::span(text));
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  SampleView storage;
  FieldView read;
  if (!decode_mds_value(encoding, std::span(out).subspan(begin), storage, read).ok())
    return cannot_hold(encoding, "the value is not a number");
  return {};
}

/// Returns the shape of a field of numbers: that of an array, otherwise one dimension, stored in
/// `flat`.
Result<std::span<const std::uint64_t>> shape_of(const FieldView& field, Dtype dtype,
                                                std::uint64_t& flat) {
  const std::uint64_t item_bytes = dtype_size_bytes(dtype);
  if (field.type != FieldType::array) {
    flat = field.bytes.size() / item_bytes;
    if (flat * item_bytes != field.bytes.size()) {
      return Status(Code::invalid_argument, fmt::format("{} bytes are not a whole number of {}",
                                                        field.bytes.size(), dtype_name(dtype)));
    }
    return std::span<const std::uint64_t>(&flat, 1);
  }
  std::uint64_t size_bytes = item_bytes;
  bool overflow = false;
  for (const std::uint64_t dimension : field.shape) {
    overflow = overflow || __builtin_mul_overflow(size_bytes, dimension, &size_bytes);
  }
  if (overflow || size_bytes != field.bytes.size()) {
    return Status(
        Code::invalid_argument,
        fmt::format("the array has {} bytes, which does not match its shape", field.bytes.size()));
  }
  return field.shape;
}

/// u8 (ndim << 2 | log2 of the width), then the dimensions in the smallest width that fits all.
void append_shape(std::span<const std::uint64_t> shape, std::vector<std::byte>& out) {
  const std::uint64_t largest = *std::ranges::max_element(shape);
  const unsigned log_width = largest < (1ULL << 8)    ? 0
                             : largest < (1ULL << 16) ? 1
                             : largest < (1ULL << 32) ? 2
                                                      : 3;
  out.push_back(static_cast<std::byte>(shape.size() << 2 | log_width));
  for (const std::uint64_t dimension : shape) {
    const auto bytes = std::as_bytes(std::span(&dimension, 1));
    out.insert(out.end(), bytes.begin(), bytes.begin() + (std::ptrdiff_t{1} << log_width));
  }
}

Status encode_ndarray(const MdsEncoding& encoding, const FieldView& field,
                      std::vector<std::byte>& out) {
  STOKER_ASSIGN(const Dtype dtype, dtype_of(field));
  std::uint64_t flat = 0;
  STOKER_ASSIGN(const auto shape, shape_of(field, dtype, flat));
  if (field.bytes.empty()) return cannot_hold(encoding, "MDS has no arrays without elements");
  if (encoding.dtype && *encoding.dtype != dtype) {
    return cannot_hold(encoding, fmt::format("the array is of {}", dtype_name(dtype)));
  }
  const auto* const code =
      std::ranges::find(internal::kMdsDtypeCodes, dtype, &internal::MdsDtypeCode::dtype);
  if (code == std::end(internal::kMdsDtypeCodes)) {
    return cannot_hold(encoding, fmt::format("MDS has no arrays of {}", dtype_name(dtype)));
  }
  if (!encoding.dtype) out.push_back(std::byte{code->code});
  if (!encoding.shape.empty()) {
    if (!std::ranges::equal(encoding.shape, shape)) {
      return cannot_hold(encoding, "the array has another shape");
    }
  } else {
    if (shape.empty()) return cannot_hold(encoding, "one number needs an encoding for numbers");
    if (shape.size() > internal::kMdsDimensionsMax) {
      return cannot_hold(encoding, fmt::format("the array has {} dimensions, at most {} fit",
                                               shape.size(), internal::kMdsDimensionsMax));
    }
    append_shape(shape, out);
  }
  out.insert(out.end(), field.bytes.begin(), field.bytes.end());
  return {};
}

/// Checks that the field is one number of the type that `encoding` has.
Status check_scalar(const MdsEncoding& encoding, const FieldView& field) {
  STOKER_TRY(refuse_raw(encoding, field));
  STOKER_ASSIGN(const Dtype dtype, dtype_of(field));
  if (dtype != *encoding.dtype) {
    return cannot_hold(encoding, fmt::format("the value is {}", dtype_name(dtype)));
  }
  if (field.bytes.size() != *encoding.fixed_bytes) {
    return cannot_hold(encoding, fmt::format("takes {} bytes, the value has {}",
                                             *encoding.fixed_bytes, field.bytes.size()));
  }
  return {};
}

}  // namespace

Status encode_mds_value(const MdsEncoding& encoding, const FieldView& field,
                        std::vector<std::byte>& out) {
  if (encoding.is_ndarray) {
    STOKER_TRY(refuse_raw(encoding, field));
    return encode_ndarray(encoding, field, out);
  }
  if (encoding.is_number_text) return encode_number_text(encoding, field, out);
  if (encoding.fixed_bytes) {
    STOKER_TRY(check_scalar(encoding, field));
  } else if (!is_raw(field.type)) {
    return cannot_hold(encoding, "the value is a number or an array");
  } else {
    STOKER_TRY(check_readable(encoding, field));
  }
  out.insert(out.end(), field.bytes.begin(), field.bytes.end());
  return {};
}

Result<MdsEncoding> choose_mds_encoding(const FieldView& field) {
  switch (field.type) {
    case FieldType::bytes: return parse_mds_encoding("bytes");
    case FieldType::text: return parse_mds_encoding("str");
    case FieldType::json: return parse_mds_encoding("json");
    default: break;
  }
  STOKER_ASSIGN(const Dtype dtype, dtype_of(field));
  const bool one = field.type == FieldType::array ? field.shape.empty()
                                                  : field.bytes.size() == dtype_size_bytes(dtype);
  if (one && dtype == Dtype::int64) return parse_mds_encoding("int");
  Result<MdsEncoding> encoding =
      parse_mds_encoding(fmt::format("{}{}", one ? "" : "ndarray:", dtype_name(dtype)));
  if (encoding.ok()) return encoding;
  return Status(Code::invalid_argument, fmt::format("MDS has no {}", dtype_name(dtype)));
}

}  // namespace stoker
