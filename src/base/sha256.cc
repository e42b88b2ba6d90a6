// Implements the SHA-256 functions of checksum.h.
#include <openssl/err.h>
#include <openssl/evp.h>

#include "base/checksum.h"
#include "base/hex.h"

namespace stoker {
namespace {

EVP_MD_CTX* as_context(void* context) noexcept {
  return static_cast<EVP_MD_CTX*>(context);
}

/// Returns the algorithm, or null if libcrypto has none. It is looked up once: with EVP_sha256(),
/// libcrypto would search its providers for each digest, which costs more than hashing 64 bytes.
/// Never freed, because it is in use until the process ends.
const EVP_MD* algorithm() {
  static const EVP_MD* const found = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return found;
}

Status refused() {
  std::array<char, 256> reason{};
  ERR_error_string_n(ERR_get_error(), reason.data(), reason.size());
  ERR_clear_error();  // other code on this thread reads the same queue
  return Status(Code::unsupported, std::string("sha256: libcrypto: ").append(reason.data()));
}

unsigned char* as_uchar(Sha256Digest& digest) {
  return reinterpret_cast<unsigned char*>(digest.data());
}

}  // namespace

Result<Sha256Digest> sha256(std::span<const std::byte> data) {
  Sha256Digest digest;
  if (algorithm() == nullptr ||
      EVP_Digest(data.data(), data.size(), as_uchar(digest), nullptr, algorithm(), nullptr) != 1) {
    return refused();
  }
  return digest;
}

Result<Sha256Digest> parse_sha256(std::string_view hex) {
  Sha256Digest digest;
  const Status status = parse_hex(hex, digest);
  if (!status.ok()) return status.with_context("SHA-256 digest");
  return digest;
}

void Sha256Stream::FreeContext::operator()(void* context) const noexcept {
  EVP_MD_CTX_free(as_context(context));
}

void Sha256Stream::reset() {
  if (context_ == nullptr) context_.reset(EVP_MD_CTX_new());
  open_ = context_ != nullptr && algorithm() != nullptr &&
          EVP_DigestInit_ex2(as_context(context_.get()), algorithm(), nullptr) == 1;
  failure_ = open_ ? Status() : refused();
}

void Sha256Stream::update(std::span<const std::byte> data) {
  if (!open_ || context_ == nullptr) return;
  if (EVP_DigestUpdate(as_context(context_.get()), data.data(), data.size()) == 1) return;
  open_ = false;
  failure_ = refused();
}

Result<Sha256Digest> Sha256Stream::digest() {
  STOKER_TRY(failure_);
  if (!open_ || context_ == nullptr) {
    return Status(Code::invalid_argument, "sha256: the stream has ended; reset() starts another");
  }
  open_ = false;
  Sha256Digest digest;
  if (EVP_DigestFinal_ex(as_context(context_.get()), as_uchar(digest), nullptr) == 1) return digest;
  failure_ = refused();
  return failure_;
}

}  // namespace stoker
