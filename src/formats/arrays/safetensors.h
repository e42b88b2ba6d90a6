/// \file
/// safetensors: an eight-byte length, a JSON header, then the tensors' bytes without holes. Pure
/// functions; the files our checkpoints are made of, and those of other people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/status.h"

namespace stoker {

/// The element types safetensors knows, smallest first. Types of less than a byte are counted in
/// bits.
enum class TensorType : std::uint8_t {
  f4,
  f6_e2m3,
  f6_e3m2,
  boolean,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64,
};

/// "BF16", as headers say it.
std::string_view tensor_type_name(TensorType type) noexcept;
/// `unsupported` for a name that is none of them.
Result<TensorType> parse_tensor_type(std::string_view name);
/// Of one element: 4 to 64.
std::size_t tensor_type_bits(TensorType type) noexcept;

/// The bytes of a tensor of this shape; `invalid_argument` if they are no whole number or exceed
/// 2^63.
Result<std::uint64_t> tensor_bytes(TensorType type, std::span<const std::uint64_t> shape);

struct SafetensorsEntry {
  std::string name;
  TensorType type = TensorType::f32;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin_bytes = 0;  ///< From the start of the data, not of the file.
  std::uint64_t end_bytes = 0;

  friend bool operator==(const SafetensorsEntry&, const SafetensorsEntry&) = default;
};

struct SafetensorsHeader {
  std::uint64_t data_offset_bytes = 0;          ///< Where in the file the data starts.
  std::vector<SafetensorsEntry> entries;        ///< By begin_bytes, then end_bytes, then name.
  std::map<std::string, std::string> metadata;  ///< `__metadata__`
};

/// The eight bytes of the length and "{}": no tensor begins before.
inline constexpr std::uint64_t kSafetensorsHeaderBytesMin = 10;
/// Of the JSON, as in the format's own library.
inline constexpr std::uint64_t kSafetensorsJsonBytesMax = 100'000'000;

/// How many bytes the header needs in all, told from the file's first eight: `corrupt` for a length
/// that the file cannot hold or that exceeds safetensors' own limit of 100 MB.
Result<std::uint64_t> safetensors_header_bytes(std::span<const std::byte> first_eight,
                                               std::uint64_t file_size_bytes);

/// Reads a whole header, by safetensors' rules and no others: sizes agree with shapes, ranges lie
/// one behind the other from 0 to the end of the file, no name is a duplicate. `header` may hold
/// bytes after it. `corrupt` names the tensor; `unsupported` for an element type that is not listed
/// above.
Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> header,
                                            std::uint64_t file_size_bytes);

/// The header for tensors laid out in the given order, one behind the other: their begin and end
/// are filled in. Padded with spaces so that the data starts at a multiple of `align_bytes`.
/// `invalid_argument` for a duplicate name, one that is reserved or is not UTF-8, and for a header
/// of more than kSafetensorsJsonBytesMax.
Result<std::string> format_safetensors(std::span<SafetensorsEntry> entries,
                                       const std::map<std::string, std::string>& metadata,
                                       std::size_t align_bytes);

}  // namespace stoker
