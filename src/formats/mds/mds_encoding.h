/// \file
/// What the values of an MDS column are. An encoding is a text in the index: "str", "int", "jpeg",
/// "ndarray:float32:3,224,224". All that are data are read; `pkl` is code, and refused.
///
///     bytes                          bytes as they are
///     str, str_int, str_float, str_decimal   text
///     json                           json
///     int, int64                     int64      8 bytes
///     float32, float64               float32, float64
///     uint8..uint64, int8..int32, float16    array of no dimension
///     ndarray                        array: u8 dtype | shape | elements
///     ndarray:DTYPE                  array: shape | elements
///     ndarray:DTYPE:D0,D1,...        array: elements, a fixed size
///     jpeg, png                      bytes of an image file
///     pil                            bytes: u32 width, height, length of mode | mode | pixels
///     jpeg_array, jpegarray          bytes: u32 n | u32 sizes[n] | files
///     list[jpeg], list[png], list[pil]   bytes: u32 0 | u32 n | u32 sizes[n] | elements
///
/// A shape is u8 (ndim << 2 | log2 of the bytes of a dimension), then the dimensions; each is at
/// least 1. Text and JSON are read as they are, and checked when they are written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/dtype.h"
#include "formats/shard_format.h"

namespace stoker {

struct MdsEncoding {
  std::string text;  ///< As the index has it.
  FieldType type = FieldType::bytes;
  bool is_ndarray = false;
  std::optional<Dtype> dtype;        ///< Of scalars, and of arrays whose text has it.
  std::vector<std::uint64_t> shape;  ///< Of arrays whose text has it.
  std::optional<std::uint32_t> fixed_bytes;
};

/// `unsupported` for pickle and for what the peer does not know either; `corrupt` for an ndarray
/// that makes no sense.
Result<MdsEncoding> parse_mds_encoding(std::string_view text);

/// Reads one value into `field`, all but its name. Its views are inside `value`, `storage`'s
/// `storage` or `encoding`. `corrupt` says what is wrong with the value, not where it lies.
Status decode_mds_value(const MdsEncoding& encoding, std::span<const std::byte> value,
                        SampleView& storage, FieldView& field);

/// Appends the value of `field` to `out`, as the peer writes it: numbers and arrays by their type.
/// `invalid_argument` if the encoding cannot hold it, among others bytes where numbers are wanted,
/// text that is not UTF-8 and JSON that Python's json would not read; then `out` may have grown.
Status encode_mds_value(const MdsEncoding& encoding, const FieldView& field,
                        std::vector<std::byte>& out);

/// The encoding that holds `field` and others like it: arrays keep their dtype, but not their
/// shape.
Result<MdsEncoding> choose_mds_encoding(const FieldView& field);

}  // namespace stoker
