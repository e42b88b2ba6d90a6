/// \file
/// The numbers that floating elements stand for. Pure.
#pragma once

#include <cstddef>
#include <span>

#include "formats/safetensors.h"

namespace stoker {

/// Whether element_values() knows the type: floats of a byte and more, and complex ones, which have
/// two values each.
bool has_element_values(TensorType type) noexcept;

/// Bytes of one value: half an element for complex types.
std::size_t element_value_bytes(TensorType type) noexcept;

/// Fills `out` with the values in `bytes`, which hold exactly as many.
void element_values(TensorType type, std::span<const std::byte> bytes,
                    std::span<double> out) noexcept;

}  // namespace stoker
