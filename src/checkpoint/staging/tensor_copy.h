/// \file
/// Copies a piece of a tensor, wherever its elements lie, to where it has no gaps. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "checkpoint/staging/layout.h"

namespace stoker {

/// Fills `out` with the bytes [begin, begin + out.size()) of the tensor as a file has them: last
/// dimension fastest, no gaps. Both ends must lie between two elements if it has strides.
void copy_tensor_bytes(const SaveTensor& tensor, std::uint64_t begin_bytes,
                       std::span<std::byte> out);

}  // namespace stoker
