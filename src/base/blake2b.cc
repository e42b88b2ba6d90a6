#include "base/blake2b.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace stoker {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read in native byte order");

constexpr std::size_t kBlockBytes = 128;
constexpr std::size_t kDigestBytes = 16;

/// The fractional parts of the square roots of the first eight primes, as in SHA-512.
constexpr std::array<std::uint64_t, 8> kStart = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};

/// The order in which each round mixes in the words of a block; rounds 10 and 11 repeat 0 and 1.
constexpr std::array<std::array<std::uint8_t, 16>, 10> kSchedule = {{
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
}};

using Words = std::array<std::uint64_t, 16>;

void mix(Words& v, std::array<std::size_t, 4> at, std::uint64_t x, std::uint64_t y) {
  const auto [a, b, c, d] = at;
  v[a] += v[b] + x;
  v[d] = std::rotr(v[d] ^ v[a], 32);
  v[c] += v[d];
  v[b] = std::rotr(v[b] ^ v[c], 24);
  v[a] += v[b] + y;
  v[d] = std::rotr(v[d] ^ v[a], 16);
  v[c] += v[d];
  v[b] = std::rotr(v[b] ^ v[c], 63);
}

}  // namespace

Blake2b128::Blake2b128(std::string_view person) noexcept : state_(kStart) {
  state_[0] ^= 0x01010000 ^ kDigestBytes;  // fanout and depth 1, no key
  std::array<std::uint64_t, 2> words{};
  if (!person.empty())
    std::memcpy(words.data(), person.data(), std::min(person.size(), sizeof(words)));
  state_[6] ^= words[0];
  state_[7] ^= words[1];
}

void Blake2b128::update(std::span<const std::byte> data) noexcept {
  while (!data.empty()) {
    if (held_bytes_ == kBlockBytes) compress(false);
    const std::size_t taken = std::min(data.size(), kBlockBytes - held_bytes_);
    std::memcpy(block_.data() + held_bytes_, data.data(), taken);
    held_bytes_ += taken;
    data = data.subspan(taken);
  }
}

std::array<std::byte, 16> Blake2b128::digest() noexcept {
  std::fill(block_.begin() + static_cast<std::ptrdiff_t>(held_bytes_), block_.end(), std::byte{0});
  compress(true);
  std::array<std::byte, kDigestBytes> bytes{};
  std::memcpy(bytes.data(), state_.data(), bytes.size());
  return bytes;
}

void Blake2b128::compress(bool is_last) noexcept {
  done_bytes_ += held_bytes_;
  held_bytes_ = 0;
  Words m{};
  std::memcpy(m.data(), block_.data(), sizeof(m));
  Words v{};
  std::copy(state_.begin(), state_.end(), v.begin());
  std::copy(kStart.begin(), kStart.end(), v.begin() + 8);
  v[12] ^= done_bytes_;
  if (is_last) v[14] = ~v[14];
  for (std::size_t round = 0; round < 12; ++round) {
    const auto& s = kSchedule[round % kSchedule.size()];
    for (std::size_t i = 0; i < 4; ++i)  // columns
      mix(v, {i, i + 4, i + 8, i + 12}, m[s[2 * i]], m[s[2 * i + 1]]);
    for (std::size_t i = 0; i < 4; ++i)  // diagonals
      mix(v, {i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4}, m[s[8 + 2 * i]],
          m[s[9 + 2 * i]]);
  }
  for (std::size_t i = 0; i < 8; ++i) state_[i] ^= v[i] ^ v[i + 8];
}

std::array<std::byte, 16> blake2b_128(std::span<const std::byte> data) noexcept {
  Blake2b128 hash;
  hash.update(data);
  return hash.digest();
}

}  // namespace stoker
