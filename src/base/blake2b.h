#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace stoker {

/// BLAKE2b (RFC 7693) with a digest of 16 bytes and without a key, as Python's
/// hashlib.blake2b(digest_size=16) makes it. For names that both languages give to the same thing;
/// checksums of data are XXH3's and CRC32C's.
std::array<std::byte, 16> blake2b_128(std::span<const std::byte> data) noexcept;

}  // namespace stoker
