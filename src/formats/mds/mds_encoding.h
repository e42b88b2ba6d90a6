/// \file
/// The types of MDS columns. An encoding is a string in the index: "str", "int", "jpeg",
/// "ndarray:float32:3,224,224". All encodings of data are read; `pkl` is code, and is rejected.
///
///     bytes                          bytes as they are
///     str, str_decimal               text
///     str_int                        int64, written as text; json if it does not fit 64 bits
///     str_float                      float64, written as text
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

#include "formats/shard_format.h"
#include "stoker/dtype.h"

namespace stoker {

struct MdsEncoding {
  std::string text;  ///< As in the index.
  FieldType type = FieldType::bytes;
  bool is_ndarray = false;
  bool is_number_text = false;       ///< A number written as text: "str_int".
  std::optional<Dtype> dtype;        ///< For scalars, and for arrays whose text states it.
  std::vector<std::uint64_t> shape;  ///< For arrays whose text states it.
  std::optional<std::uint32_t> fixed_bytes;
};

/// `unsupported` for pickle and for encodings that mosaicml-streaming does not know either;
/// `corrupt` for an invalid ndarray.
Result<MdsEncoding> parse_mds_encoding(std::string_view text);

/// Decodes one value into `field`, except its name. Views refer to `value`, to `storage.storage` or
/// to `encoding`. `corrupt` says what is wrong with the value, but not its offset.
Status decode_mds_value(const MdsEncoding& encoding, std::span<const std::byte> value,
                        SampleView& storage, FieldView& field);

/// Appends the value of `field` to `out` as mosaicml-streaming writes it: numbers and arrays by
/// their type. `invalid_argument` if the encoding cannot represent it, for example bytes for a
/// number, text that is not UTF-8, or JSON that Python's json cannot read; `out` may have grown
/// then.
Status encode_mds_value(const MdsEncoding& encoding, const FieldView& field,
                        std::vector<std::byte>& out);

/// Returns the encoding for `field` and others like it: arrays keep their dtype, but not their
/// shape.
Result<MdsEncoding> choose_mds_encoding(const FieldView& field);

}  // namespace stoker
