#include "stoker/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <tuple>

#include "formats/json/strict_json.h"

namespace stoker {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kTensorBytesMax = std::uint64_t{1} << 63;
constexpr std::string_view kMetadataName = "__metadata__";

struct TypeRow {
  TensorType type;
  std::string_view name;
  std::size_t bits;
};

constexpr std::array kTypes = {
    TypeRow{TensorType::f4, "F4", 4},
    TypeRow{TensorType::f6_e2m3, "F6_E2M3", 6},
    TypeRow{TensorType::f6_e3m2, "F6_E3M2", 6},
    TypeRow{TensorType::boolean, "BOOL", 8},
    TypeRow{TensorType::u8, "U8", 8},
    TypeRow{TensorType::i8, "I8", 8},
    TypeRow{TensorType::f8_e5m2, "F8_E5M2", 8},
    TypeRow{TensorType::f8_e4m3, "F8_E4M3", 8},
    TypeRow{TensorType::f8_e8m0, "F8_E8M0", 8},
    TypeRow{TensorType::f8_e4m3fnuz, "F8_E4M3FNUZ", 8},
    TypeRow{TensorType::f8_e5m2fnuz, "F8_E5M2FNUZ", 8},
    TypeRow{TensorType::i16, "I16", 16},
    TypeRow{TensorType::u16, "U16", 16},
    TypeRow{TensorType::f16, "F16", 16},
    TypeRow{TensorType::bf16, "BF16", 16},
    TypeRow{TensorType::i32, "I32", 32},
    TypeRow{TensorType::u32, "U32", 32},
    TypeRow{TensorType::f32, "F32", 32},
    TypeRow{TensorType::c64, "C64", 64},
    TypeRow{TensorType::f64, "F64", 64},
    TypeRow{TensorType::i64, "I64", 64},
    TypeRow{TensorType::u64, "U64", 64},
};

constexpr bool rows_are_in_order() {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (static_cast<std::size_t>(kTypes[i].type) != i) return false;
  }
  return true;
}
static_assert(rows_are_in_order());

Status corrupt(std::string message) {
  return {Code::corrupt, "safetensors header: " + std::move(message)};
}

std::uint64_t length_of(std::span<const std::byte> first_eight) {
  std::uint64_t length = 0;
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(&length, first_eight.data(), kLengthBytes);
  return length;
}

Result<SafetensorsEntry> parse_entry(std::string_view name, const JsonView& value) {
  SafetensorsEntry entry;
  entry.name = name;
  STOKER_ASSIGN(const JsonView dtype, value.at("dtype"));
  STOKER_ASSIGN(const std::string type_name, dtype.text());
  const Result<TensorType> type = parse_tensor_type(type_name);
  if (!type.ok()) return type.status().with_context(dtype.path());
  entry.type = *type;
  STOKER_ASSIGN(const JsonView shape, value.at("shape"));
  STOKER_ASSIGN(const std::size_t dimensions, shape.array_size());
  for (std::size_t i = 0; i < dimensions; ++i) {
    STOKER_ASSIGN(const std::uint64_t size, shape.element(i).u64());
    entry.shape.push_back(size);
  }
  STOKER_ASSIGN(const JsonView offsets, value.at("data_offsets"));
  STOKER_ASSIGN(const std::size_t offset_count, offsets.array_size());
  if (offset_count != 2) return offsets.corrupt("not two numbers");
  STOKER_ASSIGN(entry.begin_bytes, offsets.element(0).u64());
  STOKER_ASSIGN(entry.end_bytes, offsets.element(1).u64());
  return entry;
}

Result<std::map<std::string, std::string>> parse_metadata(const JsonView& value) {
  std::map<std::string, std::string> metadata;
  if (value.is_null()) return metadata;
  if (!value.value().is_object()) return value.corrupt("not an object");
  for (const auto& [key, text] : value.value().sorted_items()) {
    if (!text.is_string()) {
      return value.corrupt(fmt::format("{} is not a string", quote_for_message(key)));
    }
    metadata.emplace(key, text.get_string());
  }
  return metadata;
}

/// Checks that the entries, which are sorted, cover 0 to `data_bytes` without gaps.
Status check_ranges(std::span<const SafetensorsEntry> entries, std::uint64_t data_bytes) {
  std::uint64_t expected = 0;
  for (const SafetensorsEntry& entry : entries) {
    const std::string name = quote_for_message(entry.name);
    if (entry.begin_bytes != expected || entry.end_bytes < entry.begin_bytes) {
      return corrupt(fmt::format("tensor {} is at {} to {}, the one before it ends at {}", name,
                                 entry.begin_bytes, entry.end_bytes, expected));
    }
    const Result<std::uint64_t> size = tensor_bytes(entry.type, entry.shape);
    if (!size.ok()) return corrupt(fmt::format("tensor {}: {}", name, size.status().message()));
    if (*size != entry.end_bytes - entry.begin_bytes) {
      return corrupt(fmt::format("tensor {} has {} bytes by its shape, {} by its place", name,
                                 *size, entry.end_bytes - entry.begin_bytes));
    }
    expected = entry.end_bytes;
  }
  if (expected != data_bytes) {
    return corrupt(fmt::format("the tensors end at {}, the data at {}", expected, data_bytes));
  }
  return {};
}

}  // namespace

std::string_view tensor_type_name(TensorType type) noexcept {
  return kTypes[static_cast<std::size_t>(type)].name;
}

Result<TensorType> parse_tensor_type(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (row.name == name) return row.type;
  }
  return Status(Code::unsupported, "unknown element type: " + quote_for_message(name));
}

std::size_t tensor_type_bits(TensorType type) noexcept {
  return kTypes[static_cast<std::size_t>(type)].bits;
}

Result<std::uint64_t> tensor_bytes(TensorType type, std::span<const std::uint64_t> shape) {
  const std::uint64_t bits = tensor_type_bits(type);
  // An empty tensor may have other dimensions of any size, but the safetensors library multiplies
  // from the left and rejects an overflow before it reaches the 0; so do we.
  std::uint64_t elements = 1;
  for (const std::uint64_t size : shape) {
    if (__builtin_mul_overflow(elements, size, &elements)) {
      return Status(Code::invalid_argument, "the shape has more than 2^64 elements");
    }
  }
  const unsigned __int128 all_bits = static_cast<unsigned __int128>(elements) * bits;
  if (all_bits % 8 != 0) {
    return Status(
        Code::invalid_argument,
        fmt::format("{} elements of {} bits are not a whole number of bytes", elements, bits));
  }
  if (all_bits / 8 > kTensorBytesMax) {
    return Status(Code::invalid_argument, "the tensor has more than 2^63 bytes");
  }
  return static_cast<std::uint64_t>(all_bits / 8);
}

Result<std::uint64_t> safetensors_header_bytes(std::span<const std::byte> first_eight,
                                               std::uint64_t file_size_bytes) {
  if (first_eight.size() < kLengthBytes || file_size_bytes < kLengthBytes) {
    return corrupt(fmt::format("a file of {} bytes has no room for its length", file_size_bytes));
  }
  const std::uint64_t length = length_of(first_eight);
  if (length > kSafetensorsJsonBytesMax) {
    return corrupt(fmt::format("its length, {}, is more than the {} that are allowed", length,
                               kSafetensorsJsonBytesMax));
  }
  if (length > file_size_bytes - kLengthBytes) {
    return corrupt(
        fmt::format("its length, {}, exceeds the file of {} bytes", length, file_size_bytes));
  }
  return kLengthBytes + length;
}

Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> header,
                                            std::uint64_t file_size_bytes) {
  STOKER_ASSIGN(const std::uint64_t header_bytes,
                safetensors_header_bytes(header, file_size_bytes));
  if (header.size() < header_bytes) {
    return corrupt(fmt::format("{} of its {} bytes were given", header.size(), header_bytes));
  }
  const std::string_view text(reinterpret_cast<const char*>(header.data()) + kLengthBytes,
                              static_cast<std::size_t>(header_bytes - kLengthBytes));
  if (!text.starts_with('{')) return corrupt("does not begin with {");
  STOKER_ASSIGN(
      const Json document,
      parse_strict_json(text, "safetensors header", {.text_bytes_max = kSafetensorsJsonBytesMax}));
  SafetensorsHeader parsed;
  parsed.data_offset_bytes = header_bytes;
  for (const auto& [name, value] : document.sorted_items()) {
    const JsonView view(value, "safetensors header: " + quote_for_message(name));
    if (name == kMetadataName) {
      STOKER_ASSIGN(parsed.metadata, parse_metadata(view));
      continue;
    }
    STOKER_ASSIGN(SafetensorsEntry entry, parse_entry(name, view));
    parsed.entries.push_back(std::move(entry));
  }
  std::ranges::sort(parsed.entries, {}, [](const SafetensorsEntry& entry) {
    return std::tuple<std::uint64_t, std::uint64_t, std::string_view>(entry.begin_bytes,
                                                                      entry.end_bytes, entry.name);
  });
  STOKER_TRY(check_ranges(parsed.entries, file_size_bytes - header_bytes));
  return parsed;
}

}  // namespace stoker
