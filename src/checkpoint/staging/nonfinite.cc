#include "checkpoint/staging/nonfinite.h"

#include <cstring>

namespace stoker {
namespace {

/// Elements in one pass of the inner loop. A constant, so that compilers vectorize it at their
/// usual settings, and small enough that a sum of the element's own width cannot overflow: the loop
/// works on whole vectors without widening.
constexpr std::size_t kTurn = 128;

/// Counts the elements for which `is_bad` returns 1.
template <typename T, typename Test>
std::uint64_t count_if_bad(std::span<const std::byte> bytes, Test is_bad) noexcept {
  std::uint64_t total = 0;
  while (bytes.size() >= kTurn * sizeof(T)) {
    T turn[kTurn];
    std::memcpy(turn, bytes.data(), sizeof turn);
    T sum = 0;
    for (const T value : turn) sum = static_cast<T>(sum + is_bad(value));
    total += sum;
    bytes = bytes.subspan(sizeof turn);
  }
  for (; bytes.size() >= sizeof(T); bytes = bytes.subspan(sizeof(T))) {
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    total += is_bad(value);
  }
  return total;
}

/// IEEE formats: all bits of the exponent are set.
template <typename T, T kExponent>
std::uint64_t count_exponent(std::span<const std::byte> bytes) noexcept {
  return count_if_bad<T>(
      bytes, [](T value) { return static_cast<T>((value & kExponent) == kExponent ? 1 : 0); });
}

/// Formats whose non-finite values match one pattern under a mask.
template <std::uint8_t kMask, std::uint8_t kPattern>
std::uint64_t count_pattern(std::span<const std::byte> bytes) noexcept {
  return count_if_bad<std::uint8_t>(bytes, [](std::uint8_t value) {
    return static_cast<std::uint8_t>((value & kMask) == kPattern ? 1 : 0);
  });
}

}  // namespace

bool has_nonfinite(TensorType type) noexcept {
  switch (type) {
    case TensorType::f8_e5m2:
    case TensorType::f8_e4m3:
    case TensorType::f8_e8m0:
    case TensorType::f8_e4m3fnuz:
    case TensorType::f8_e5m2fnuz:
    case TensorType::f16:
    case TensorType::bf16:
    case TensorType::f32:
    case TensorType::c64:
    case TensorType::f64: return true;
    default: return false;  // integers, and floats of 4 and 6 bits, which have finite values only
  }
}

std::uint64_t count_nonfinite(TensorType type, std::span<const std::byte> bytes) noexcept {
  switch (type) {
    case TensorType::f8_e5m2: return count_pattern<0x7C, 0x7C>(bytes);
    case TensorType::f8_e4m3: return count_pattern<0x7F, 0x7F>(bytes);
    case TensorType::f8_e8m0: return count_pattern<0xFF, 0xFF>(bytes);
    case TensorType::f8_e4m3fnuz:
    case TensorType::f8_e5m2fnuz: return count_pattern<0xFF, 0x80>(bytes);
    case TensorType::f16: return count_exponent<std::uint16_t, 0x7C00>(bytes);
    case TensorType::bf16: return count_exponent<std::uint16_t, 0x7F80>(bytes);
    case TensorType::f32:
    case TensorType::c64: return count_exponent<std::uint32_t, 0x7F800000>(bytes);
    case TensorType::f64: return count_exponent<std::uint64_t, 0x7FF0000000000000>(bytes);
    default: return 0;
  }
}

}  // namespace stoker
