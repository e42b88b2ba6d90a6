#include "dataset/tokens/token_fingerprint.h"

#include <array>
#include <cstring>
#include <vector>

#include "base/blake2b.h"
#include "base/hex.h"

namespace stoker {

Digest128 token_fingerprint(const Digest128& dataset, std::span<const std::uint64_t> cut) {
  std::vector<std::byte> bytes(16 + cut.size_bytes());
  // The bytes in the order of the hex text. This cannot fail: parse_hex() reads what hex() writes.
  static_cast<void>(parse_hex(dataset.hex(), std::span(bytes).first(16)));
  if (!cut.empty()) std::memcpy(bytes.data() + 16, cut.data(), cut.size_bytes());
  const std::array<std::byte, 16> digest = blake2b_128(bytes);
  const Result<Digest128> made = Digest128::from_hex(format_hex(digest));
  return made.ok() ? *made : Digest128();  // 32 digits are always valid
}

}  // namespace stoker
