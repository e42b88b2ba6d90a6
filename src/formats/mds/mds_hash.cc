#include "formats/mds/mds_hash.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/checksum.h"
#include "base/hex.h"
#include "formats/json/strict_json.h"

namespace stoker {
namespace {

using HashBytes = std::string (*)(std::span<const std::byte>);

/// `libcrypto` is the algorithm's name there; if null, `hash` computes the digest.
struct Algorithm {
  std::string_view name;
  const char* libcrypto;
  HashBytes hash;
};

std::string hash_xxh128(std::span<const std::byte> bytes) {
  return xxh3_128(bytes).hex();
}
std::string hash_xxh3_64(std::span<const std::byte> bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}
std::string hash_xxh64(std::span<const std::byte> bytes) {
  return fmt::format("{:016x}", XXH64(bytes.data(), bytes.size(), 0));
}
std::string hash_xxh32(std::span<const std::byte> bytes) {
  return fmt::format("{:08x}", XXH32(bytes.data(), bytes.size(), 0));
}

constexpr Algorithm kAlgorithms[] = {
    {"md5", "MD5", nullptr},
    {"sha1", "SHA1", nullptr},
    {"sha224", "SHA224", nullptr},
    {"sha256", "SHA256", nullptr},
    {"sha384", "SHA384", nullptr},
    {"sha512", "SHA512", nullptr},
    {"sha3_224", "SHA3-224", nullptr},
    {"sha3_256", "SHA3-256", nullptr},
    {"sha3_384", "SHA3-384", nullptr},
    {"sha3_512", "SHA3-512", nullptr},
    {"blake2b", "BLAKE2B-512", nullptr},
    {"blake2s", "BLAKE2S-256", nullptr},
    {"xxh32", nullptr, hash_xxh32},
    {"xxh64", nullptr, hash_xxh64},
    {"xxh3_64", nullptr, hash_xxh3_64},
    {"xxh128", nullptr, hash_xxh128},
    {"xxh3_128", nullptr, hash_xxh128},
};

const Algorithm* find_algorithm(std::string_view name) noexcept {
  const auto* const found = std::ranges::find(kAlgorithms, name, &Algorithm::name);
  return found == std::end(kAlgorithms) ? nullptr : found;
}

struct FreeMd {
  void operator()(EVP_MD* md) const noexcept { EVP_MD_free(md); }
};

}  // namespace

bool is_mds_hash(std::string_view algorithm) noexcept {
  return find_algorithm(algorithm) != nullptr;
}

Result<std::string> mds_digest(std::string_view algorithm, std::span<const std::byte> bytes) {
  const Algorithm* const found = find_algorithm(algorithm);
  if (found == nullptr) {
    return Status(Code::unsupported,
                  fmt::format("hash {} is unknown; write the dataset with sha256 or xxh128",
                              quote_for_message(algorithm)));
  }
  if (found->hash != nullptr) return found->hash(bytes);
  const std::unique_ptr<EVP_MD, FreeMd> md(EVP_MD_fetch(nullptr, found->libcrypto, nullptr));
  std::array<std::byte, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (md == nullptr ||
      EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), &size,
                 md.get(), nullptr) != 1) {
    ERR_clear_error();  // the queue belongs to the thread, and other code reads it
    return Status(Code::unsupported,
                  fmt::format("hash {}: libcrypto does not offer it here", algorithm));
  }
  return format_hex(std::span(digest).first(size));
}

}  // namespace stoker
