/// \file
/// Processing a tensor in pieces, without holding all of it in memory. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "stoker/safetensors.h"
#include "stoker/status.h"

namespace stoker {

struct TensorBox {
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> shape;
  std::uint64_t size_bytes = 0;
};

/// Divides a tensor into boxes of at most `size_max_bytes`, or of one element. Concatenated, their
/// bytes are those of the tensor, last dimension fastest. A tensor of elements smaller than a byte
/// is not divided; one without elements has no box. Stops at the first error of `visit` and returns
/// it.
Status for_each_box(TensorType type, std::span<const std::uint64_t> shape,
                    std::uint64_t size_max_bytes,
                    const std::function<Status(const TensorBox&)>& visit);

}  // namespace stoker
