/// \file
/// Copies a piece of a strided tensor to contiguous memory. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "checkpoint/staging/layout.h"

namespace stoker {

/// Fills `out` with the bytes [begin, begin + out.size()) of the tensor in file order: last
/// dimension fastest, no gaps. If the tensor has strides, both ends must be element boundaries.
void copy_tensor_bytes(const SaveTensor& tensor, std::uint64_t begin_bytes,
                       std::span<std::byte> out);

}  // namespace stoker
