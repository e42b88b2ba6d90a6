// The reading part of mds_encoding.h; mds_encode.cc writes.
#include "formats/mds/mds_encoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "formats/arrays/offset_table.h"
#include "formats/json/strict_json.h"
#include "formats/mds/mds_ndarray.h"

namespace stoker {
namespace {

struct NamedType {
  std::string_view name;
  FieldType type;
};

constexpr NamedType kVariable[] = {
    {"bytes", FieldType::bytes},       {"str", FieldType::text},
    {"json", FieldType::json},         {"str_int", FieldType::int64},
    {"str_float", FieldType::float64}, {"str_decimal", FieldType::text},
    {"pil", FieldType::bytes},         {"jpeg", FieldType::bytes},
    {"jpeg_array", FieldType::bytes},  {"jpegarray", FieldType::bytes},
    {"png", FieldType::bytes},         {"list[pil]", FieldType::bytes},
    {"list[jpeg]", FieldType::bytes},  {"list[png]", FieldType::bytes},
};

constexpr Dtype kNumbers[] = {Dtype::uint8,   Dtype::int8,    Dtype::uint16, Dtype::int16,
                              Dtype::uint32,  Dtype::int32,   Dtype::uint64, Dtype::int64,
                              Dtype::float16, Dtype::float32, Dtype::float64};

std::optional<Dtype> find_number(std::string_view name) {
  for (const Dtype dtype : kNumbers)
    if (dtype_name(dtype) == name) return dtype;
  return std::nullopt;
}

FieldType scalar_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::int64: return FieldType::int64;
    case Dtype::float32: return FieldType::float32;
    case Dtype::float64: return FieldType::float64;
    default: return FieldType::array;
  }
}

/// "3,224,224" after "ndarray:float32:".
Status parse_shape(std::string_view text, MdsEncoding& encoding) {
  std::uint64_t size_bytes = dtype_size_bytes(*encoding.dtype);
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    std::uint64_t dimension = 0;
    const auto [next, error] = std::from_chars(at, end, dimension);
    if (error != std::errc() || dimension == 0 || (next != end && *next != ',')) {
      return {Code::corrupt, fmt::format("encoding {}: dimensions are whole numbers from 1 on",
                                         quote_for_message(encoding.text))};
    }
    if (__builtin_mul_overflow(size_bytes, dimension, &size_bytes) || size_bytes > UINT32_MAX ||
        encoding.shape.size() == internal::kMdsDimensionsMax) {
      return {Code::corrupt,
              fmt::format("encoding {}: larger than any shard", quote_for_message(encoding.text))};
    }
    encoding.shape.push_back(dimension);
    if (next == end) break;
    at = next + 1;
  }
  encoding.fixed_bytes = static_cast<std::uint32_t>(size_bytes);
  return {};
}

Result<MdsEncoding> parse_ndarray(std::string_view text) {
  MdsEncoding encoding = {.text = std::string(text),
                          .type = FieldType::array,
                          .is_ndarray = true,
                          .is_number_text = false,
                          .dtype = {},
                          .shape = {},
                          .fixed_bytes = {}};
  text.remove_prefix(std::min(text.size(), std::string_view("ndarray:").size()));
  if (text.empty()) return encoding;
  const std::size_t colon = text.find(':');
  encoding.dtype = find_number(text.substr(0, colon));
  if (!encoding.dtype) {
    return Status(Code::corrupt, fmt::format("encoding {}: no such element type",
                                             quote_for_message(encoding.text)));
  }
  if (colon != std::string_view::npos) STOKER_TRY(parse_shape(text.substr(colon + 1), encoding));
  return encoding;
}

}  // namespace

namespace internal {

std::optional<Dtype> find_mds_dtype(std::uint8_t code) noexcept {
  for (const MdsDtypeCode& known : kMdsDtypeCodes)
    if (known.code == code) return known.dtype;
  return std::nullopt;
}

}  // namespace internal

Result<MdsEncoding> parse_mds_encoding(std::string_view text) {
  for (const NamedType& known : kVariable) {
    if (known.name != text) continue;
    return MdsEncoding{.text = std::string(text),
                       .type = known.type,
                       .is_ndarray = false,
                       .is_number_text = known.name == "str_int" || known.name == "str_float",
                       .dtype = {},
                       .shape = {},
                       .fixed_bytes = {}};
  }
  if (const auto dtype = text == "int" ? Dtype::int64 : find_number(text)) {
    return MdsEncoding{.text = std::string(text),
                       .type = scalar_type(*dtype),
                       .is_ndarray = false,
                       .is_number_text = false,
                       .dtype = dtype,
                       .shape = {},
                       .fixed_bytes = static_cast<std::uint32_t>(dtype_size_bytes(*dtype))};
  }
  if (text == "ndarray" || text.starts_with("ndarray:")) return parse_ndarray(text);
  if (text == "pkl") {
    return Status(Code::unsupported,
                  "encoding \"pkl\": a pickle is a program, and is not run; write the column "
                  "again as json, ndarray or bytes");
  }
  return Status(Code::unsupported,
                fmt::format("encoding {} is not one of MDS's own; write the column again as bytes",
                            quote_for_message(text)));
}

namespace {

/// Takes the dimensions before an array's elements, widened into `storage`.
Status take_shape(std::span<const std::byte>& value, SampleView& storage, FieldView& field) {
  if (value.empty()) return {Code::corrupt, "the array ends before its shape"};
  const auto head = std::to_integer<unsigned>(value.front());
  const std::size_t rank = head >> 2;
  const std::size_t width = std::size_t{1} << (head & 3);
  value = value.subspan(1);
  if (value.size() < rank * width) return {Code::corrupt, "the array ends inside its shape"};
  std::vector<std::byte>& room = storage.storage.emplace_back(rank * sizeof(std::uint64_t));
  for (std::size_t i = 0; i < rank; ++i) {
    // Little-endian: the narrow number is the low end of the wide one.
    std::memcpy(room.data() + i * sizeof(std::uint64_t), value.data() + i * width, width);
  }
  value = value.subspan(rank * width);
  // operator new aligns for any number.
  field.shape = {reinterpret_cast<const std::uint64_t*>(room.data()), rank};
  return {};
}

Status decode_ndarray(const MdsEncoding& encoding, std::span<const std::byte> value,
                      SampleView& storage, FieldView& field) {
  std::optional<Dtype> dtype = encoding.dtype;
  if (!dtype) {
    if (value.empty()) return {Code::corrupt, "the array is empty, its element type is missing"};
    dtype = internal::find_mds_dtype(std::to_integer<std::uint8_t>(value.front()));
    if (!dtype) {
      return {Code::corrupt, fmt::format("element type code {} is unknown",
                                         std::to_integer<unsigned>(value.front()))};
    }
    value = value.subspan(1);
  }
  if (encoding.shape.empty()) {
    STOKER_TRY(take_shape(value, storage, field));
  } else {
    field.shape = encoding.shape;
  }
  std::uint64_t size_bytes = dtype_size_bytes(*dtype);
  for (const std::uint64_t dimension : field.shape) {
    if (dimension == 0) return {Code::corrupt, "the array has a dimension of 0"};
    if (__builtin_mul_overflow(size_bytes, dimension, &size_bytes)) {
      return {Code::corrupt, "the array's shape overflows"};
    }
  }
  if (size_bytes != value.size()) {
    return {Code::corrupt,
            fmt::format("the array's shape takes {} bytes, it has {}", size_bytes, value.size())};
  }
  field.dtype = dtype_descr(*dtype);
  field.bytes = value;
  return {};
}

}  // namespace

namespace {

template <typename T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// A number as Python's str() writes it. An integer may be larger than 64 bits: it is JSON then.
Status decode_number_text(const MdsEncoding& encoding, SampleView& storage, FieldView& field) {
  const std::string_view text(reinterpret_cast<const char*>(field.bytes.data()),
                              field.bytes.size());
  if (encoding.type == FieldType::float64) {
    if (const auto value = parse_whole<double>(text)) {
      field.bytes = storage.keep_number(&*value);
      return {};
    }
  } else if (const auto value = parse_whole<std::int64_t>(text)) {
    field.bytes = storage.keep_number(&*value);
    return {};
  } else if (const std::size_t sign = text.starts_with('-') ? 1 : 0;
             text.size() > sign && text[sign] != '0' &&
             text.find_first_not_of("0123456789", sign) == std::string_view::npos) {
    field.type = FieldType::json;
    return {};
  }
  return {Code::corrupt, fmt::format("{} is not a number, as the encoding {} says",
                                     quote_for_message(text), quote_for_message(encoding.text))};
}

}  // namespace

Status decode_mds_value(const MdsEncoding& encoding, std::span<const std::byte> value,
                        SampleView& storage, FieldView& field) {
  field.type = encoding.type;
  field.bytes = value;
  field.dtype = {};
  field.shape = {};
  if (encoding.fixed_bytes && value.size() != *encoding.fixed_bytes) {
    return {Code::corrupt, fmt::format("{} bytes, encoding {} takes {}", value.size(),
                                       quote_for_message(encoding.text), *encoding.fixed_bytes)};
  }
  if (encoding.is_ndarray) return decode_ndarray(encoding, value, storage, field);
  if (encoding.is_number_text) return decode_number_text(encoding, storage, field);
  if (encoding.type == FieldType::array) field.dtype = dtype_descr(*encoding.dtype);
  return {};
}

}  // namespace stoker
