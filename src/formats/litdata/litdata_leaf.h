/// \file
/// The types of the leaves of LitData samples. A format is a string in the index: "str", "int",
/// "no_header_tensor:1". Pickle is code, and is rejected.
///
///     str, text            text
///     int, float           int64, float64      8 bytes
///     bool                 array "|b1" of no dimension, 1 byte
///     json                 json, from LitData's own binary form (litdata_nested.h)
///     numpy                array: u32 dtype | u32 ndim | u32 dims[ndim] | elements
///     tensor               array: the same header, but BIG-endian, or little-endian in older
///                          versions; elements little-endian
///     no_header_numpy:K, no_header_tensor:K    array of one dimension and of dtype K
///     bytes, jpeg, pil, jpeg_array, image:EXT, video:EXT, audio:EXT, file:EXT, tiff, pdf, mesh,
///     nifti, graph         bytes, as they are
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "formats/shard_format.h"
#include "stoker/dtype.h"

namespace stoker {

struct LitdataLeaf {
  enum class Kind : std::uint8_t { plain, number, json, numpy, tensor, flat_array };

  std::string name;
  Kind kind = Kind::plain;
  FieldType type = FieldType::bytes;
  std::optional<Dtype> dtype;  ///< For numbers and flat arrays.
};

/// `unsupported` for pickle, for the output of user-defined serializers, and for element types
/// without a little-endian NumPy type; `corrupt` for an unknown dtype.
Result<LitdataLeaf> parse_litdata_format(std::string_view name, std::string_view format);

/// Decodes one leaf into `field`, except its name. Views refer to `value` or to `storage.storage`.
/// `corrupt` says what is wrong with the value, but not its offset.
Status decode_litdata_leaf(const LitdataLeaf& leaf, std::span<const std::byte> value,
                           SampleView& storage, FieldView& field);

}  // namespace stoker
