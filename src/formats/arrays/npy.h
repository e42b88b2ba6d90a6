/// \file
/// NumPy's .npy: a magic, a version, the length of the header, the header (the text of a Python
/// dict), and the array.
///
///     "\x93NUMPY" | u8 major | u8 minor | u16 or (from version 2) u32 header length | header |
///     data
///     {'descr': '<i4', 'fortran_order': False, 'shape': (3, 4), }
///
/// Reads versions 1, 2 and 3, C order, little-endian numbers. Nothing is evaluated: the parser
/// accepts this one dict and no other Python. `unsupported`, with what to do instead, for pickles,
/// Fortran order, big-endian numbers and structured types; `corrupt`, with the offset, otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stoker/dtype.h"
#include "stoker/status.h"

namespace stoker {

/// Longer headers are `unsupported`; NumPy itself stops at 10,000 bytes by default.
inline constexpr std::uint64_t kNpyHeaderBytesMax = std::uint64_t{64} << 10;
/// The most bytes from the beginning of a file that parse_npy() needs.
inline constexpr std::uint64_t kNpyHeadBytesMax = 12 + kNpyHeaderBytesMax;
/// The limit of NumPy 2; older versions allow 32.
inline constexpr std::size_t kNpyDimensionsMax = 64;

struct NpyArray {
  Dtype dtype = Dtype::float64;
  std::vector<std::uint64_t> shape;     ///< Empty for a scalar, which has one element.
  std::uint64_t element_count = 1;      ///< The product of `shape`.
  std::uint64_t data_offset_bytes = 0;  ///< The data extend from here to the end of the file.
};

/// Parses the header of a file of `size_bytes`. `head` is the beginning of the file:
/// kNpyHeadBytesMax bytes, or all of a shorter file. The file must end with the array.
Result<NpyArray> parse_npy(std::span<const std::byte> head, std::uint64_t size_bytes);

/// Returns the bytes before the data, in version 1, as NumPy 2 writes them: the data begin at a
/// multiple of 64, and the header has room for the first dimension to grow. `invalid_argument` for
/// more than kNpyDimensionsMax dimensions, or a size of 2^63 bytes or more.
Result<std::vector<std::byte>> make_npy_head(Dtype dtype, std::span<const std::uint64_t> shape);

}  // namespace stoker
