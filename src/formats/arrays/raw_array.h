/// \file
/// Arrays whose file does not say its dtype; the caller states it:
///
///     raw       data
///     counted   u64 samples | u64 length | u64 reserved | data         little-endian, 24 bytes
///     shard001  "SHARD001" | u64 samples | u64 width | 40 bytes | data  big-endian header, 64
///     bytes
///
/// Data are little-endian in all three. Reserved bytes are written as 0 and ignored when read.
/// The file must end with the data: its size is the only check that can detect a wrong dtype.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stoker/dtype.h"
#include "stoker/status.h"

namespace stoker {

inline constexpr std::uint64_t kCountedHeadBytes = 24;
inline constexpr std::uint64_t kShard001HeadBytes = 64;
inline constexpr Dtype kCountedDtype = Dtype::int32;     ///< Default dtype of `counted`.
inline constexpr Dtype kShard001Dtype = Dtype::float32;  ///< Default dtype of `shard001`.

/// `samples` rows of `width` elements.
struct ArrayRows {
  Dtype dtype = Dtype::int32;
  std::uint64_t samples = 0;
  std::uint64_t width = 0;
  std::uint64_t data_offset_bytes = 0;

  bool operator==(const ArrayRows&) const = default;
};

/// Returns one row with all elements; `corrupt` if the size is not a multiple of the dtype's.
Result<ArrayRows> parse_raw_array(std::uint64_t size_bytes, Dtype dtype);

/// Parses the header. `head` is the beginning of a file of `size_bytes`: at least its header.
/// `corrupt` names the offset, for a truncated header, counts that overflow, rows without elements,
/// or a size other than what the counts add up to.
Result<ArrayRows> parse_counted_array(std::span<const std::byte> head, std::uint64_t size_bytes,
                                      Dtype dtype = kCountedDtype);
Result<ArrayRows> parse_shard001_array(std::span<const std::byte> head, std::uint64_t size_bytes,
                                       Dtype dtype = kShard001Dtype);

/// Returns the bytes before the data. `invalid_argument` for counts that the parser would reject.
Result<std::vector<std::byte>> make_counted_head(std::uint64_t samples, std::uint64_t length,
                                                 Dtype dtype = kCountedDtype);
Result<std::vector<std::byte>> make_shard001_head(std::uint64_t samples, std::uint64_t width,
                                                  Dtype dtype = kShard001Dtype);

}  // namespace stoker
