/// \file
/// 64-bit words as eight little-endian bytes, independent of the machine's byte order.
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

/// Returns the word in the first eight of `bytes`; `bytes` must have at least eight.
inline std::uint64_t word_at(std::span<const std::byte> bytes) noexcept {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < 8; ++i) word |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return word;
}

}  // namespace stoker::internal
