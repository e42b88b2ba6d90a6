/// \file
/// Counts the values that are infinite or not a number: a run that has gone wrong shows in its
/// checkpoints. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/arrays/safetensors.h"

namespace stoker {

/// Whether the type has values that are not finite at all.
bool has_nonfinite(TensorType type) noexcept;

/// How many elements of `bytes` are not finite; of a complex type, how many parts. `bytes` begins
/// and ends between two elements.
std::uint64_t count_nonfinite(TensorType type, std::span<const std::byte> bytes) noexcept;

}  // namespace stoker
