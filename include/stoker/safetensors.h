/// \file
/// safetensors: an eight-byte length, a JSON header, then the tensors' bytes without gaps. Pure
/// functions, for the files of our checkpoints and those of other programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/api.h"
#include "stoker/status.h"
#include "stoker/tensor.h"

namespace stoker {

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

/// The eight bytes of the length and "{}": the smallest possible header.
inline constexpr std::uint64_t kSafetensorsHeaderBytesMin = 10;
/// Limit of the JSON, the same as in the safetensors library.
inline constexpr std::uint64_t kSafetensorsJsonBytesMax = 100'000'000;

/// Returns the size of the whole header, with the length, from the first eight bytes of the file.
/// `corrupt` for a length beyond the end of the file or above kSafetensorsJsonBytesMax.
STOKER_API Result<std::uint64_t> safetensors_header_bytes(std::span<const std::byte> first_eight,
                                                          std::uint64_t file_size_bytes);

/// Reads a whole header by the rules of safetensors: sizes agree with shapes, ranges follow each
/// other from 0 to the end of the file without gaps, names are unique. `header` may contain bytes
/// after the header. `corrupt` names the tensor; `unsupported` for an element type that is not
/// listed above.
STOKER_API Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> header,
                                                       std::uint64_t file_size_bytes);

/// Returns the header for tensors stored back to back in the given order, and sets their begin and
/// end. The header is padded with spaces so that the data begins at a multiple of `align_bytes`.
/// `invalid_argument` for a name that is a duplicate, reserved or not UTF-8, and for JSON of more
/// than kSafetensorsJsonBytesMax.
STOKER_API Result<std::string> format_safetensors(
    std::span<SafetensorsEntry> entries, const std::map<std::string, std::string>& metadata,
    std::size_t align_bytes);

}  // namespace stoker
