/// \file
/// The element types of arrays: our names, NumPy's, and their sizes, in one table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "stoker/status.h"

namespace stoker {

/// Little-endian, always.
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
  bfloat16,  ///< NumPy has none: its files carry the bits as uint16.
  boolean,   ///< One byte, 0 or 1.
};

/// 1, 2, 4 or 8.
std::size_t dtype_size_bytes(Dtype dtype) noexcept;

/// "uint16", "bfloat16", "bool": what settings, Python and messages say.
std::string_view dtype_name(Dtype dtype) noexcept;

/// What a .npy header says: "<u2", "|u1". bfloat16 gives "<u2".
std::string_view dtype_descr(Dtype dtype) noexcept;

/// Reads dtype_name(), or NumPy's short form without byte order ("u2"); `invalid_argument`, with
/// all the names, for anything else.
Result<Dtype> parse_dtype(std::string_view name);

/// Reads what a .npy header may say: dtype_descr(), or '<' before an element of one byte, which
/// means the same. `unsupported`, with the way out, for objects (pickles), big-endian numbers,
/// strings, complex numbers, and all the others. "<u2" is uint16: whoever knows better says so.
Result<Dtype> dtype_from_descr(std::string_view descr);

}  // namespace stoker
