/// \file
/// Converts elements to numbers. Pure.
#pragma once

#include <cstddef>
#include <span>

#include "stoker/safetensors.h"

namespace stoker {

/// Whether element_values() supports the type: elements of at least a byte. Complex elements have
/// two values each; integers beyond 2^53 are rounded.
bool has_element_values(TensorType type) noexcept;

/// Returns the size of one value: half an element for complex types.
std::size_t element_value_bytes(TensorType type) noexcept;

/// Fills `out` with the values in `bytes`, which must contain exactly as many.
void element_values(TensorType type, std::span<const std::byte> bytes,
                    std::span<double> out) noexcept;

}  // namespace stoker
