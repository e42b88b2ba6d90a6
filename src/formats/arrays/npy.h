/// \file
/// NumPy's .npy: a magic, a version, the length of a header, the header (a Python dict written
/// out), and the array.
///
///     "\x93NUMPY" | u8 major | u8 minor | u16 or (from version 2) u32 header length | header |
///     data
///     {'descr': '<i4', 'fortran_order': False, 'shape': (3, 4), }
///
/// Read: versions 1, 2 and 3, C order, little-endian numbers. Nothing is evaluated: the parser
/// knows this one dict and no more of Python. `unsupported`, with the way out, for pickles, Fortran
/// order, big-endian numbers and structures; `corrupt`, with the offset, for the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/dtype.h"
#include "stoker/status.h"

namespace stoker {

/// A longer header is refused; NumPy itself stops at 10,000 unless told otherwise.
inline constexpr std::uint64_t kNpyHeaderBytesMax = std::uint64_t{64} << 10;
/// As much of the beginning of a file as parse_npy() may want.
inline constexpr std::uint64_t kNpyHeadBytesMax = 12 + kNpyHeaderBytesMax;
/// NumPy 2 has as many; older ones have 32.
inline constexpr std::size_t kNpyDimensionsMax = 64;

struct NpyArray {
  Dtype dtype = Dtype::float64;
  std::vector<std::uint64_t> shape;     ///< Empty: one element, a scalar.
  std::uint64_t element_count = 1;      ///< The product of `shape`.
  std::uint64_t data_offset_bytes = 0;  ///< The data reach from here to the end of the file.
};

/// `head`: the first bytes of the file, all of it or kNpyHeadBytesMax. `size_bytes`: of the file,
/// which must end with the array.
Result<NpyArray> parse_npy(std::span<const std::byte> head, std::uint64_t size_bytes);

/// The bytes before the data, in version 1, as NumPy 2 writes them: data begin at a multiple of 64,
/// and the first dimension has room to grow. `invalid_argument` for more than kNpyDimensionsMax
/// dimensions, or a size past 2^63.
Result<std::vector<std::byte>> make_npy_head(Dtype dtype, std::span<const std::uint64_t> shape);

}  // namespace stoker
