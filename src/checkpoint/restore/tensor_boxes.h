/// \file
/// A tensor piece by piece, for those who cannot hold all of it. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "formats/arrays/safetensors.h"
#include "stoker/status.h"

namespace stoker {

struct TensorBox {
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> shape;
  std::uint64_t size_bytes = 0;
};

/// Cuts a tensor into boxes of at most `size_max_bytes`, or one element. One behind the other,
/// their bytes are the tensor's, last dimension fastest. A type of less than a byte is not cut; a
/// tensor without elements has no box. Stops at the first error of `visit` and returns it.
Status for_each_box(TensorType type, std::span<const std::uint64_t> shape,
                    std::uint64_t size_max_bytes,
                    const std::function<Status(const TensorBox&)>& visit);

}  // namespace stoker
