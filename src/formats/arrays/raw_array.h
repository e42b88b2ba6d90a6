/// \file
/// Arrays whose file says little or nothing of what is in it, so that the caller states the dtype:
///
///     raw       data
///     counted   u64 samples | u64 length | u64 reserved | data         little-endian, 24 bytes
///     shard001  "SHARD001" | u64 samples | u64 width | 40 bytes | data  big-endian header, 64
///     bytes
///
/// Data are little-endian in all three. Reserved bytes are written as 0 and ignored when read.
/// The file must end with the data: its size is the one check that a wrong dtype can fail.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/dtype.h"
#include "stoker/status.h"

namespace stoker {

inline constexpr std::uint64_t kCountedHeadBytes = 24;
inline constexpr std::uint64_t kShard001HeadBytes = 64;
inline constexpr Dtype kCountedDtype = Dtype::int32;     ///< Unless said otherwise.
inline constexpr Dtype kShard001Dtype = Dtype::float32;  ///< Unless said otherwise.

/// `samples` rows of `width` elements.
struct ArrayRows {
  Dtype dtype = Dtype::int32;
  std::uint64_t samples = 0;
  std::uint64_t width = 0;
  std::uint64_t data_offset_bytes = 0;

  bool operator==(const ArrayRows&) const = default;
};

/// One row of all elements; `corrupt` if the size is no multiple of the dtype's.
Result<ArrayRows> parse_raw_array(std::uint64_t size_bytes, Dtype dtype);

/// `head`: the first bytes of a file of `size_bytes`, its header at least. `corrupt` names the
/// offset: a header cut off, counts that overflow, rows of no elements, a size that differs from
/// what the counts come to.
Result<ArrayRows> parse_counted_array(std::span<const std::byte> head, std::uint64_t size_bytes,
                                      Dtype dtype = kCountedDtype);
Result<ArrayRows> parse_shard001_array(std::span<const std::byte> head, std::uint64_t size_bytes,
                                       Dtype dtype = kShard001Dtype);

/// The bytes before the data. `invalid_argument` for what the parser would not take back.
Result<std::vector<std::byte>> make_counted_head(std::uint64_t samples, std::uint64_t length,
                                                 Dtype dtype = kCountedDtype);
Result<std::vector<std::byte>> make_shard001_head(std::uint64_t samples, std::uint64_t width,
                                                  Dtype dtype = kShard001Dtype);

}  // namespace stoker
