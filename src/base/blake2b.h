#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace stoker {

/// BLAKE2b (RFC 7693) with a 16-byte digest and no key; computes the same digest as Python's
/// hashlib.blake2b(digest_size=16, person=...). Used for names that C++ and Python must derive
/// alike; checksums of data use XXH3 and CRC32C.
///
/// Thread safety: none.
class Blake2b128 {
 public:
  /// `person` separates the digests of different purposes; only its first 16 bytes are used.
  explicit Blake2b128(std::string_view person = {}) noexcept;

  void update(std::span<const std::byte> data) noexcept;
  /// Returns the digest of all data passed to update(). Call it once, at the end.
  std::array<std::byte, 16> digest() noexcept;

 private:
  void compress(bool is_last) noexcept;

  std::array<std::uint64_t, 8> state_;
  std::array<std::byte, 128> block_{};
  std::size_t held_bytes_ = 0;  // in block_; a full block is compressed when more data follows
  std::uint64_t done_bytes_ = 0;
};

/// Returns the digest of `data`.
std::array<std::byte, 16> blake2b_128(std::span<const std::byte> data) noexcept;

}  // namespace stoker
