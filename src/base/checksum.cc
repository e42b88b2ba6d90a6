#include "base/checksum.h"

// Exposes the size of XXH3_state_t, which is stored by value; a static_assert below checks it.
#define XXH_STATIC_LINKING_ONLY
#include <isa-l/crc.h>
#include <xxhash.h>
#if defined(STOKER_XXH_DISPATCH)
#include <xxh_x86dispatch.h>  // renames the XXH3 calls to those that pick AVX2 or AVX-512
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <limits>

#include "base/hex.h"

namespace stoker {
namespace {

Digest128 digest_of(XXH128_hash_t hash) noexcept {
  return {.low = hash.low64, .high = hash.high64};
}

using StateStorage = std::array<std::byte, 576>;
static_assert(sizeof(XXH3_state_t) <= sizeof(StateStorage) && alignof(XXH3_state_t) <= 64);

XXH3_state_t* state_in(StateStorage& storage) noexcept {
  return reinterpret_cast<XXH3_state_t*>(storage.data());
}
const XXH3_state_t* state_in(const StateStorage& storage) noexcept {
  return reinterpret_cast<const XXH3_state_t*>(storage.data());
}

// libxxhash 0.8.1 and ISA-L 2.30, as Debian 12 ships them, return from their AVX-512 code with the
// upper halves of the vector registers in use. Until they are cleared, SSE code, which is all code
// compiled for plain x86-64, runs slower on that thread: portable XXH3 fell from 19 to 5 GB/s and
// OpenSSL's SHA-256 from 1.6 to 1.2 GB/s. So each call into them is followed by this function.
#if defined(__x86_64__)
__attribute__((target("avx"))) void clear_upper_halves() noexcept {
  _mm256_zeroupper();
}

void after_vector_code() noexcept {
  if (__builtin_cpu_supports("avx")) clear_upper_halves();
}
#else
void after_vector_code() noexcept {}
#endif

// Separate from the function that tests call, so that position-independent code may inline it: a
// second call would cost a fifth of the time that 64 bytes take.
inline std::uint32_t extend_crc32c(std::span<const std::byte> data, std::uint32_t crc,
                                   std::size_t piece_bytes_max) noexcept {
  // crc32_iscsi works on the bare register: the inversions of the standard are done here.
  std::uint32_t register_bits = ~crc;
  while (!data.empty()) {
    const std::span<const std::byte> piece = data.first(std::min(data.size(), piece_bytes_max));
    // crc32_iscsi only reads, but its C signature lacks the const.
    auto* bytes = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(piece.data()));
    register_bits = crc32_iscsi(bytes, static_cast<int>(piece.size()), register_bits);
    data = data.subspan(piece.size());
  }
  after_vector_code();
  return ~register_bits;
}

}  // namespace

std::string Digest128::hex() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, {.low64 = low, .high64 = high});
  return format_hex(std::as_bytes(std::span(canonical.digest)));
}

Result<Digest128> Digest128::from_hex(std::string_view text) {
  XXH128_canonical_t canonical;
  const Status status = parse_hex(text, std::as_writable_bytes(std::span(canonical.digest)));
  if (!status.ok()) return status.with_context("XXH3-128 digest");
  return digest_of(XXH128_hashFromCanonical(&canonical));
}

Digest128 xxh3_128(std::span<const std::byte> data) noexcept {
  const Digest128 digest = digest_of(XXH3_128bits(data.data(), data.size()));
  after_vector_code();
  return digest;
}

// The return codes ignored below report only a null state or null data; neither is passed.

void Xxh3Stream::reset() noexcept {
  XXH3_128bits_reset(state_in(state_));
}

void Xxh3Stream::update(std::span<const std::byte> data) noexcept {
  if (data.empty()) return;  // its pointer may be null, which some versions refuse
  XXH3_128bits_update(state_in(state_), data.data(), data.size());
  after_vector_code();
}

Digest128 Xxh3Stream::digest() const noexcept {
  return digest_of(XXH3_128bits_digest(state_in(state_)));
}

std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t crc) noexcept {
  constexpr std::size_t kPieceBytesMax = std::size_t{1} << 30;
  static_assert(kPieceBytesMax <= std::numeric_limits<int>::max());
  return extend_crc32c(data, crc, kPieceBytesMax);
}

std::uint32_t internal::crc32c_in_pieces(std::span<const std::byte> data, std::uint32_t crc,
                                         std::size_t piece_bytes_max) noexcept {
  return extend_crc32c(data, crc, piece_bytes_max);
}

}  // namespace stoker
