#include "formats/litdata/litdata_leaf.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "formats/arrays/offset_table.h"
#include "formats/json/strict_json.h"
#include "formats/litdata/litdata_nested.h"

namespace stoker {
namespace {

/// NumPy's limit.
constexpr std::uint32_t kDimensionsMax = 64;

constexpr std::string_view kPlainBytes[] = {
    "bytes", "jpeg", "pil",      "jpeg_array", "image", "video", "audio",
    "file",  "tiff", "tifffile", "pdf",        "mesh",  "nifti", "graph",
};

/// Codes 0 to 10, and 13; 11 and 12 are complex numbers.
constexpr std::optional<Dtype> kNumpyCodes[] = {
    Dtype::int8,    Dtype::int16,  Dtype::int32,  Dtype::int64,   Dtype::uint8,
    Dtype::uint16,  Dtype::uint32, Dtype::uint64, Dtype::float16, Dtype::float32,
    Dtype::float64, std::nullopt,  std::nullopt,  Dtype::boolean,
};

/// Some types have two codes; LitData writes the second. 4 to 7 are complex numbers; 10 is
/// bfloat16, which LitData lists but cannot write.
constexpr std::optional<Dtype> kTorchCodes[] = {
    Dtype::float32, Dtype::float32, Dtype::float64, Dtype::float64, std::nullopt, std::nullopt,
    std::nullopt,   std::nullopt,   Dtype::float16, Dtype::float16, std::nullopt, Dtype::uint8,
    Dtype::int8,    Dtype::int16,   Dtype::int16,   Dtype::int32,   Dtype::int32, Dtype::int64,
    Dtype::int64,   Dtype::boolean, Dtype::uint16,
};

Result<Dtype> find_dtype(std::span<const std::optional<Dtype>> codes, std::uint64_t code) {
  if (code >= codes.size()) {
    return Status(Code::corrupt, fmt::format("element type code {} is unknown", code));
  }
  if (!codes[code]) {
    return Status(Code::unsupported,
                  fmt::format("element type code {} is complex or bfloat16, which NumPy or we do "
                              "not have; store floats",
                              code));
  }
  return *codes[code];
}

/// Early versions wrote a little-endian header for tensors. Codes and ranks are small, so the first
/// number that is not 0 shows the byte order.
bool is_big_endian(std::span<const std::byte> value) {
  const auto code = load_number<std::uint32_t>(value);
  return (code != 0 ? code : load_number<std::uint32_t>(value, 4)) > UINT16_MAX;
}

Status decode_headed_array(bool is_tensor, std::span<const std::byte> value, SampleView& storage,
                           FieldView& field) {
  if (value.size() < 8) return {Code::corrupt, "the array ends inside its header"};
  const bool big_endian = is_tensor && is_big_endian(value);
  const auto number_at = [&](std::size_t at) {
    const auto number = load_number<std::uint32_t>(value, at);
    return big_endian ? __builtin_bswap32(number) : number;
  };
  STOKER_ASSIGN(const Dtype dtype,
                find_dtype(is_tensor ? std::span(kTorchCodes)
                                     : std::span<const std::optional<Dtype>>(kNumpyCodes),
                           number_at(0)));
  const std::uint32_t rank = number_at(4);
  if (rank > kDimensionsMax) {
    return {Code::corrupt, fmt::format("the array has {} dimensions", rank)};
  }
  const std::size_t header_bytes = 8 + 4 * std::size_t{rank};
  if (value.size() < header_bytes) return {Code::corrupt, "the array ends inside its shape"};
  std::vector<std::byte>& room = storage.storage.emplace_back(rank * sizeof(std::uint64_t));
  std::uint64_t size_bytes = dtype_size_bytes(dtype);
  bool overflow = false;
  bool empty = false;
  for (std::uint32_t i = 0; i < rank; ++i) {
    const std::uint64_t dimension = number_at(8 + 4 * std::size_t{i});
    std::memcpy(room.data() + i * sizeof dimension, &dimension, sizeof dimension);
    empty = empty || dimension == 0;
    overflow = __builtin_mul_overflow(size_bytes, dimension, &size_bytes) || overflow;
  }
  const std::size_t left_bytes = value.size() - header_bytes;
  if (empty ? left_bytes != 0 : overflow || size_bytes != left_bytes) {
    return {Code::corrupt,
            fmt::format("the array's shape does not match its {} bytes", left_bytes)};
  }
  field.bytes = value.subspan(header_bytes);
  field.dtype = dtype_descr(dtype);
  // operator new aligns for any number.
  field.shape = {reinterpret_cast<const std::uint64_t*>(room.data()), rank};
  return {};
}

Status decode_flat_array(Dtype dtype, std::span<const std::byte> value, SampleView& storage,
                         FieldView& field) {
  const std::uint64_t count = value.size() / dtype_size_bytes(dtype);
  if (count * dtype_size_bytes(dtype) != value.size()) {
    return {Code::corrupt,
            fmt::format("{} bytes are not a whole number of {}", value.size(), dtype_name(dtype))};
  }
  std::vector<std::byte>& room = storage.storage.emplace_back(sizeof count);
  std::memcpy(room.data(), &count, sizeof count);
  field.dtype = dtype_descr(dtype);
  field.shape = {reinterpret_cast<const std::uint64_t*>(room.data()), 1};
  return {};
}

}  // namespace

Result<LitdataLeaf> parse_litdata_format(std::string_view name, std::string_view format) {
  using Kind = LitdataLeaf::Kind;
  const auto leaf = [&](Kind kind, FieldType type, std::optional<Dtype> dtype = std::nullopt) {
    return LitdataLeaf{std::string(name), kind, type, dtype};
  };
  const std::size_t colon = format.find(':');
  const std::string_view base = format.substr(0, colon);
  if (format == "str" || format == "text") return leaf(Kind::plain, FieldType::text);
  if (format == "int") return leaf(Kind::number, FieldType::int64, Dtype::int64);
  if (format == "float") return leaf(Kind::number, FieldType::float64, Dtype::float64);
  if (format == "bool") return leaf(Kind::number, FieldType::array, Dtype::boolean);
  if (format == "json") return leaf(Kind::json, FieldType::json);
  if (format == "numpy") return leaf(Kind::numpy, FieldType::array);
  if (format == "tensor") return leaf(Kind::tensor, FieldType::array);
  if (base == "no_header_numpy" || base == "no_header_tensor") {
    const std::string_view digits = colon == std::string_view::npos ? "" : format.substr(colon + 1);
    std::uint64_t code = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      return Status(Code::corrupt,
                    fmt::format("format {} has no element type", quote_for_message(format)));
    }
    STOKER_ASSIGN(
        const Dtype dtype,
        find_dtype(base == "no_header_tensor" ? std::span(kTorchCodes)
                                              : std::span<const std::optional<Dtype>>(kNumpyCodes),
                   code));
    return leaf(Kind::flat_array, FieldType::array, dtype);
  }
  if (std::ranges::find(kPlainBytes, base) != std::end(kPlainBytes)) {
    return leaf(Kind::plain, FieldType::bytes);
  }
  if (base == "pickle") {
    return Status(Code::unsupported,
                  "format \"pickle\": a pickle is a program, and is not run; give the samples "
                  "values of str, int, float, bytes, NumPy or torch, and no None");
  }
  return Status(Code::unsupported, fmt::format("format {} is not one of LitData's own; store bytes",
                                               quote_for_message(format)));
}

Status decode_litdata_leaf(const LitdataLeaf& leaf, std::span<const std::byte> value,
                           SampleView& storage, FieldView& field) {
  field.type = leaf.type;
  field.bytes = value;
  field.dtype = {};
  field.shape = {};
  switch (leaf.kind) {
    case LitdataLeaf::Kind::plain: return {};
    case LitdataLeaf::Kind::json: return decode_litdata_json(value, storage, field);
    case LitdataLeaf::Kind::numpy: return decode_headed_array(false, value, storage, field);
    case LitdataLeaf::Kind::tensor: return decode_headed_array(true, value, storage, field);
    case LitdataLeaf::Kind::flat_array:
      return decode_flat_array(*leaf.dtype, value, storage, field);
    case LitdataLeaf::Kind::number: break;
  }
  if (value.size() != dtype_size_bytes(*leaf.dtype)) {
    return {Code::corrupt, fmt::format("{} bytes, {} takes {}", value.size(),
                                       dtype_name(*leaf.dtype), dtype_size_bytes(*leaf.dtype))};
  }
  if (leaf.type == FieldType::array) field.dtype = dtype_descr(*leaf.dtype);
  return {};
}

}  // namespace stoker
