#include "checkpoint/inspect/element_values.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace stoker {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// A small float: sign, exponent, mantissa.
struct Shape {
  int mantissa_bits;
  int exponent_bits;
  int bias;
};

/// Converts a float of a format without special values.
double plain_value(unsigned bits, const Shape& shape) {
  const unsigned mantissa = bits & ((1U << shape.mantissa_bits) - 1);
  const unsigned exponent = (bits >> shape.mantissa_bits) & ((1U << shape.exponent_bits) - 1);
  const bool is_negative = (bits >> (shape.mantissa_bits + shape.exponent_bits) & 1U) != 0;
  const unsigned significand = exponent == 0 ? mantissa : mantissa | 1U << shape.mantissa_bits;
  const int power =
      static_cast<int>(exponent == 0 ? 1 : exponent) - shape.bias - shape.mantissa_bits;
  const double value = std::ldexp(static_cast<double>(significand), power);
  return is_negative ? -value : value;
}

/// Converts a float of an IEEE format: the greatest exponent means infinity or NaN.
double ieee_value(unsigned bits, const Shape& shape) {
  const unsigned exponent_mask = (1U << shape.exponent_bits) - 1;
  if ((bits >> shape.mantissa_bits & exponent_mask) != exponent_mask)
    return plain_value(bits, shape);
  if ((bits & ((1U << shape.mantissa_bits) - 1)) != 0) return kNan;
  return (bits >> (shape.mantissa_bits + shape.exponent_bits) & 1U) != 0 ? -kInfinity : kInfinity;
}

double value_at(TensorType type, const std::byte* at) {
  const auto byte = std::to_integer<unsigned>(*at);
  switch (type) {
    case TensorType::boolean:
    case TensorType::u8: return byte;
    case TensorType::i8: return load<std::int8_t>(at);
    case TensorType::i16: return load<std::int16_t>(at);
    case TensorType::u16: return load<std::uint16_t>(at);
    case TensorType::i32: return load<std::int32_t>(at);
    case TensorType::u32: return load<std::uint32_t>(at);
    case TensorType::i64: return static_cast<double>(load<std::int64_t>(at));
    case TensorType::u64: return static_cast<double>(load<std::uint64_t>(at));
    case TensorType::f64: return load<double>(at);
    case TensorType::f32:
    case TensorType::c64: return static_cast<double>(load<float>(at));
    case TensorType::bf16: {
      const std::uint32_t bits = static_cast<std::uint32_t>(load<std::uint16_t>(at)) << 16;
      return static_cast<double>(load<float>(reinterpret_cast<const std::byte*>(&bits)));
    }
    case TensorType::f16: return ieee_value(load<std::uint16_t>(at), {10, 5, 15});
    case TensorType::f8_e5m2: return ieee_value(byte, {2, 5, 15});
    case TensorType::f8_e4m3: return (byte & 0x7FU) == 0x7F ? kNan : plain_value(byte, {3, 4, 7});
    case TensorType::f8_e4m3fnuz: return byte == 0x80 ? kNan : plain_value(byte, {3, 4, 8});
    case TensorType::f8_e5m2fnuz: return byte == 0x80 ? kNan : plain_value(byte, {2, 5, 16});
    case TensorType::f8_e8m0:
      return byte == 0xFF ? kNan : std::ldexp(1.0, static_cast<int>(byte) - 127);
    default: return kNan;
  }
}

}  // namespace

bool has_element_values(TensorType type) noexcept {
  return tensor_type_bits(type) % 8 == 0;
}

std::size_t element_value_bytes(TensorType type) noexcept {
  return type == TensorType::c64 ? 4 : tensor_type_bits(type) / 8;
}

void element_values(TensorType type, std::span<const std::byte> bytes,
                    std::span<double> out) noexcept {
  const std::size_t size = element_value_bytes(type);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = value_at(type, bytes.data() + i * size);
}

}  // namespace stoker
