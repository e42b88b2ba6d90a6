/// \file
/// The numbers that elements stand for. Pure.
#pragma once

#include <cstddef>
#include <span>

#include "formats/arrays/safetensors.h"

namespace stoker {

/// Whether element_values() knows the type: those of a byte and more. Complex ones have two values
/// each, and integers beyond 2^53 are rounded.
bool has_element_values(TensorType type) noexcept;

/// Bytes of one value: half an element for complex types.
std::size_t element_value_bytes(TensorType type) noexcept;

/// Fills `out` with the values in `bytes`, which hold exactly as many.
void element_values(TensorType type, std::span<const std::byte> bytes,
                    std::span<double> out) noexcept;

}  // namespace stoker
