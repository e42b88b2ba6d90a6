/// \file
/// The three checksums that Stoker writes, each as a single call and as a stream. XXH3-128 detects
/// damage at memory speed; record formats and object stores use CRC32C; SHA-256 also resists
/// forgery. libxxhash, ISA-L and libcrypto compute them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "stoker/digest.h"
#include "stoker/status.h"

namespace stoker {

/// Returns the standard CRC32C (Castagnoli, as in iSCSI; "123456789" gives 0xE3069283) of `data`
/// appended to bytes whose CRC32C is `crc`. The default is the CRC of no bytes.
std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t crc = 0) noexcept;

/// The 32 bytes in the order in which `sha256sum` prints them; see format_hex().
using Sha256Digest = std::array<std::byte, 32>;

/// `unsupported` if libcrypto offers no SHA-256, for example because a policy forbids it.
Result<Sha256Digest> sha256(std::span<const std::byte> data);
/// Reads 64 lower-case digits; `invalid_argument` for anything else.
Result<Sha256Digest> parse_sha256(std::string_view hex);

/// XXH3-128 as a stream. Its 576 bytes of state are a member; it never allocates.
///
/// Thread safety: none.
class Xxh3Stream {
 public:
  Xxh3Stream() noexcept { reset(); }

  void reset() noexcept;
  void update(std::span<const std::byte> data) noexcept;
  /// Returns the digest of all data since reset(). More data may follow.
  Digest128 digest() const noexcept;

 private:
  // Storage for an XXH3_state_t. It contains no pointer into itself, so a copy is another stream.
  alignas(64) std::array<std::byte, 576> state_{};
};

/// CRC32C as a stream.
///
/// Thread safety: none.
class Crc32cStream {
 public:
  void reset() noexcept { crc_ = 0; }
  void update(std::span<const std::byte> data) noexcept { crc_ = crc32c(data, crc_); }
  /// Returns the CRC of all data since reset(). More data may follow.
  std::uint32_t digest() const noexcept { return crc_; }

 private:
  std::uint32_t crc_ = 0;
};

/// SHA-256 as a stream. digest() reports any earlier failure inside libcrypto.
///
/// Thread safety: none.
class Sha256Stream {
 public:
  Sha256Stream() { reset(); }

  void reset();
  /// Does nothing after digest(), after a failure, and on a stream that was moved from.
  void update(std::span<const std::byte> data);
  /// Ends the stream and returns the digest of all data since reset(). `invalid_argument` if the
  /// stream had already ended; `unsupported` if libcrypto failed.
  Result<Sha256Digest> digest();

 private:
  struct FreeContext {
    void operator()(void* context) const noexcept;
  };

  std::unique_ptr<void, FreeContext> context_;  // null once moved from; reset() allocates another
  bool open_ = false;
  Status failure_;
};

namespace internal {

/// Computes crc32c() in calls of at most `piece_bytes_max`, because the library counts bytes in an
/// int. crc32c() passes 1 GiB; a test passes a small number to cross the boundary.
std::uint32_t crc32c_in_pieces(std::span<const std::byte> data, std::uint32_t crc,
                               std::size_t piece_bytes_max) noexcept;

}  // namespace internal
}  // namespace stoker
