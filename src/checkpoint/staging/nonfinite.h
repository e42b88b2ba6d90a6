/// \file
/// Counts infinite and NaN values, so that checkpoints show when a run has diverged. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stoker/safetensors.h"

namespace stoker {

/// Whether the type can represent non-finite values.
bool has_nonfinite(TensorType type) noexcept;

/// Returns the number of non-finite elements in `bytes`; for a complex type, of real and imaginary
/// parts. `bytes` must consist of whole elements.
std::uint64_t count_nonfinite(TensorType type, std::span<const std::byte> bytes) noexcept;

}  // namespace stoker
