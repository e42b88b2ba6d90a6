/// \file
/// The element types of arrays: our names, NumPy's, and their sizes, in one table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "stoker/api.h"
#include "stoker/status.h"

namespace stoker {

/// Always little-endian.
enum class Dtype : std::uint8_t {
  uint8,
  int8,
  uint16,
  int16,
  uint32,
  int32,
  uint64,
  int64,
  float16,
  float32,
  float64,
  bfloat16,  ///< NumPy has no bfloat16: its files carry the bits as uint16.
  boolean,   ///< One byte, 0 or 1.
};

/// Returns 1, 2, 4 or 8.
STOKER_API std::size_t dtype_size_bytes(Dtype dtype) noexcept;

/// Returns the name in settings, Python and messages: "uint16", "bfloat16", "bool".
STOKER_API std::string_view dtype_name(Dtype dtype) noexcept;

/// Returns the name in a .npy header: "<u2", "|u1". bfloat16 gives "<u2".
STOKER_API std::string_view dtype_descr(Dtype dtype) noexcept;

/// Parses a dtype_name(), or NumPy's short form without byte order ("u2"); `invalid_argument`, with
/// all names, for anything else.
STOKER_API Result<Dtype> parse_dtype(std::string_view name);

/// Parses the dtype of a .npy header: a dtype_descr(), or '<' before a one-byte type, which means
/// the same. `unsupported`, with what to do instead, for objects (pickles), big-endian numbers,
/// strings, complex numbers and all others. "<u2" gives uint16, also for bfloat16.
STOKER_API Result<Dtype> dtype_from_descr(std::string_view descr);

/// Whether elements of `dtype` can be read as T in memory: the number type of the same kind and
/// size, bool for `boolean`, std::byte and std::uint8_t for one byte, std::uint16_t for the bits of
/// `float16` and `bfloat16`.
template <typename T>
constexpr bool is_element(Dtype dtype) noexcept {
  switch (dtype) {
    case Dtype::uint8: return std::is_same_v<T, std::uint8_t> || std::is_same_v<T, std::byte>;
    case Dtype::int8: return std::is_same_v<T, std::int8_t>;
    case Dtype::uint16: return std::is_same_v<T, std::uint16_t>;
    case Dtype::int16: return std::is_same_v<T, std::int16_t>;
    case Dtype::uint32: return std::is_same_v<T, std::uint32_t>;
    case Dtype::int32: return std::is_same_v<T, std::int32_t>;
    case Dtype::uint64: return std::is_integral_v<T> && std::is_unsigned_v<T> && sizeof(T) == 8;
    case Dtype::int64: return std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) == 8;
    case Dtype::float16:
    case Dtype::bfloat16: return std::is_same_v<T, std::uint16_t>;
    case Dtype::float32: return std::is_same_v<T, float>;
    case Dtype::float64: return std::is_same_v<T, double>;
    case Dtype::boolean: return std::is_same_v<T, bool> || std::is_same_v<T, std::uint8_t>;
  }
  return false;
}

}  // namespace stoker
