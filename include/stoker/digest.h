/// \file
/// Digest128: how data is identified, in cursors and checkpoints; and the function that makes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "stoker/api.h"
#include "stoker/status.h"

namespace stoker {

/// An XXH3-128 value.
struct STOKER_API Digest128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  friend bool operator==(const Digest128&, const Digest128&) = default;

  /// Returns the canonical text that `xxhsum -H2` prints: 32 lower-case digits, big-endian, `high`
  /// first (XXH128_canonicalFromHash). The same on every machine.
  std::string hex() const;
  /// Accepts only the form that hex() writes; `invalid_argument` for anything else.
  static Result<Digest128> from_hex(std::string_view text);
};

/// Unseeded XXH3-128.
STOKER_API Digest128 xxh3_128(std::span<const std::byte> data) noexcept;

}  // namespace stoker
