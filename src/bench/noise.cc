#include "bench/noise.h"

#include <algorithm>
#include <cstring>

namespace stoker {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;

}  // namespace

void fill_with_noise(std::span<std::byte> memory, std::uint64_t seed) noexcept {
  std::uint64_t state = seed;
  for (std::size_t at = 0; at < memory.size(); at += sizeof state) {
    const std::uint64_t word = mix_bits(state += kGolden);
    std::memcpy(memory.data() + at, &word, std::min(sizeof word, memory.size() - at));
  }
}

void stamp_pages(std::span<std::byte> memory, std::uint64_t block) noexcept {
  for (std::size_t at = 0; at + sizeof block <= memory.size(); at += kPageBytes) {
    const std::uint64_t stamp = mix_bits(block * kGolden + at);
    std::memcpy(memory.data() + at, &stamp, sizeof stamp);
  }
}

}  // namespace stoker
