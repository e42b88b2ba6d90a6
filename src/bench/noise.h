#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace stoker {

/// The finalizer of SplitMix64: a cheap bijection whose output looks random.
constexpr std::uint64_t mix_bits(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// Fills `memory` with bytes that no device can compress, the same for the same seed. Runs at a few
/// GB/s: call it before the clock starts.
void fill_with_noise(std::span<std::byte> memory, std::uint64_t seed) noexcept;

/// Makes every 4 KiB page of `memory` different from every page stamped with another `block`, so
/// that no device can deduplicate a buffer that is written many times. Cheap enough for a hot loop.
void stamp_pages(std::span<std::byte> memory, std::uint64_t block) noexcept;

}  // namespace stoker
