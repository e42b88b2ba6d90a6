/// \file
/// 64-bit words as eight bytes, the least first, whatever the machine's own order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace stoker::internal {

inline void append_word(std::vector<std::byte>& bytes, std::uint64_t word) {
  for (unsigned shift = 0; shift < 64; shift += 8)
    bytes.push_back(static_cast<std::byte>(word >> shift));
}

/// The word in the first eight of `bytes`, of which there must be as many.
inline std::uint64_t word_at(std::span<const std::byte> bytes) noexcept {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < 8; ++i) word |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return word;
}

}  // namespace stoker::internal
