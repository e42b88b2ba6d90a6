/// \file
/// The three checksums Stoker writes, each in one call and piece by piece. XXH3-128 finds damage at
/// memory speed; CRC32C is what record formats and object stores carry; SHA-256 is for those who
/// must also resist a forger. The libraries below do the work at their full speed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "stoker/status.h"

namespace stoker {

/// An XXH3-128 value.
struct Digest128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  friend bool operator==(const Digest128&, const Digest128&) = default;

  /// The canonical text, the one `xxhsum -H2` prints: 32 lower-case digits, big-endian, `high`
  /// first (XXH128_canonicalFromHash). The same on every machine.
  std::string hex() const;
  /// Reads exactly what hex() writes; `invalid_argument` for anything else.
  static Result<Digest128> from_hex(std::string_view text);
};

/// Unseeded XXH3-128.
Digest128 xxh3_128(std::span<const std::byte> data) noexcept;

/// Standard CRC32C (Castagnoli, as in iSCSI; "123456789" gives 0xE3069283) of `data` appended to
/// bytes whose CRC32C is `crc`; the default is the CRC of no bytes.
std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t crc = 0) noexcept;

/// The 32 bytes in the order in which `sha256sum` prints them; see format_hex().
using Sha256Digest = std::array<std::byte, 32>;

/// `unsupported` if libcrypto has no SHA-256 to give, as under a policy that forbids it.
Result<Sha256Digest> sha256(std::span<const std::byte> data);
Result<Sha256Digest> parse_sha256(std::string_view hex);

/// XXH3-128 piece by piece. Holds its 576 bytes of state in itself and never allocates.
///
/// Thread safety: none.
class Xxh3Stream {
 public:
  Xxh3Stream() noexcept { reset(); }

  void reset() noexcept;
  void update(std::span<const std::byte> data) noexcept;
  /// Of everything since reset(); more may follow.
  Digest128 digest() const noexcept;

 private:
  // Storage for an XXH3_state_t. It holds no pointer into itself, so a copy is another stream.
  alignas(64) std::array<std::byte, 576> state_{};
};

/// CRC32C piece by piece.
///
/// Thread safety: none.
class Crc32cStream {
 public:
  void reset() noexcept { crc_ = 0; }
  void update(std::span<const std::byte> data) noexcept { crc_ = crc32c(data, crc_); }
  /// Of everything since reset(); more may follow.
  std::uint32_t digest() const noexcept { return crc_; }

 private:
  std::uint32_t crc_ = 0;
};

/// SHA-256 piece by piece. A failure inside libcrypto is kept, and reported by digest().
///
/// Thread safety: none.
class Sha256Stream {
 public:
  Sha256Stream() { reset(); }

  void reset();
  /// Ignored by a stream that has ended: by digest(), or because it was moved from.
  void update(std::span<const std::byte> data);
  /// Of everything since reset(), and the end of the stream; `invalid_argument` if it had ended.
  Result<Sha256Digest> digest();

 private:
  struct FreeContext {
    void operator()(void* context) const noexcept;
  };

  std::unique_ptr<void, FreeContext> context_;  // null once moved from; reset() makes another
  bool open_ = false;
  Status failure_;
};

namespace internal {

/// crc32c() in calls of at most `piece_bytes_max`, because the library counts bytes in an int.
/// A test crosses the border with a small number; crc32c() passes 1 GiB.
std::uint32_t crc32c_in_pieces(std::span<const std::byte> data, std::uint32_t crc,
                               std::size_t piece_bytes_max) noexcept;

}  // namespace internal
}  // namespace stoker
