/// \file
/// LitData's binary form of lists and dicts inside a sample ("json" leaves), as JSON text.
///
///     u8 tag, then                              all numbers little-endian
///      0 JSON     u32 size | JSON               7 string   u32 size | UTF-8
///      1 strings  u32 n | n x (u32 size, UTF-8) 8 integer  i64
///      2 integers u32 n | i64[n]                9 float    f64
///      3 floats   u32 n | f64[n]               10 bool     u8
///      4 bools    u32 n | u8[n]                11 null
///      5 dict     u32 n | n x (u32 size, UTF-8 | value)
///      6 records  u32 n | u32 k | k x (u32 size, UTF-8) | n x k x (u8 0x10 null, 0x11 string,
///                 0x12 integer, 0x13 float, 0x14 bool; payload as above)
///
/// A leaf that starts with a byte above 0x20 is JSON text (older LitData).
#pragma once

#include <cstddef>
#include <span>

#include "formats/shard_format.h"

namespace stoker {

/// Sets `field.bytes` to JSON in `value` or in `storage.storage`. Floats keep their exact value;
/// those that JSON cannot represent become NaN, Infinity and -Infinity, as in Python. Values that
/// are JSON already are passed on without parsing. `corrupt` also for text larger than 64 KiB plus
/// 100 times its binary form, which names repeated in every record can reach.
Status decode_litdata_json(std::span<const std::byte> value, SampleView& storage, FieldView& field);

}  // namespace stoker
