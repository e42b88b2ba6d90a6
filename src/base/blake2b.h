#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace stoker {

/// BLAKE2b (RFC 7693) with a digest of 16 bytes and without a key, as Python's
/// hashlib.blake2b(digest_size=16, person=...) makes it. For names that both languages give to the
/// same thing; checksums of data are XXH3's and CRC32C's.
///
/// Thread safety: none.
class Blake2b128 {
 public:
  /// `person` separates digests of one purpose from those of others: at most 16 bytes count.
  explicit Blake2b128(std::string_view person = {}) noexcept;

  void update(std::span<const std::byte> data) noexcept;
  /// Of all data so far. Call it once, at the end.
  std::array<std::byte, 16> digest() noexcept;

 private:
  void compress(bool is_last) noexcept;

  std::array<std::uint64_t, 8> state_;
  std::array<std::byte, 128> block_{};
  std::size_t held_bytes_ = 0;  // in block_, which is compressed when more follows
  std::uint64_t done_bytes_ = 0;
};

/// The digest of `data` alone.
std::array<std::byte, 16> blake2b_128(std::span<const std::byte> data) noexcept;

}  // namespace stoker
