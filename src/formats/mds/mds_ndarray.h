/// \file
/// The type codes of MDS's ndarray encoding, for its reader and its writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "stoker/dtype.h"

namespace stoker::internal {

struct MdsDtypeCode {
  std::uint8_t code;
  Dtype dtype;
};

inline constexpr MdsDtypeCode kMdsDtypeCodes[] = {
    {8, Dtype::uint8},    {9, Dtype::int8},    {16, Dtype::uint16},  {17, Dtype::int16},
    {18, Dtype::float16}, {32, Dtype::uint32}, {33, Dtype::int32},   {34, Dtype::float32},
    {64, Dtype::uint64},  {65, Dtype::int64},  {66, Dtype::float64},
};

/// The number of dimensions is stored in six bits.
inline constexpr std::size_t kMdsDimensionsMax = 63;

std::optional<Dtype> find_mds_dtype(std::uint8_t code) noexcept;

}  // namespace stoker::internal
