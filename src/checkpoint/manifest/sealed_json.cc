#include "checkpoint/manifest/sealed_json.h"

#include <fmt/format.h>

#include <span>

#include "base/checksum.h"

namespace stoker {
namespace {

constexpr std::string_view kSealBegin = "\"xxh3_128\": \"";
constexpr std::string_view kSealEnd = "\"}\n";
constexpr std::size_t kDigestChars = 32;
constexpr std::size_t kSealBytes = kSealBegin.size() + kDigestChars + kSealEnd.size();

Digest128 digest_of(std::string_view text) {
  return xxh3_128(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace

std::string seal_json(std::string body) {
  const Digest128 digest = digest_of(body);
  body += kSealBegin;
  body += digest.hex();
  body += kSealEnd;
  return body;
}

Status check_json_seal(std::string_view text, std::string_view what) {
  const auto corrupt = [&](std::string_view reason) {
    return Status(Code::corrupt, fmt::format("{}: {}", what, reason));
  };
  if (text.size() < kSealBytes) {
    return corrupt(fmt::format("{} bytes are too few to end with a checksum", text.size()));
  }
  const std::string_view body = text.substr(0, text.size() - kSealBytes);
  std::string_view seal = text.substr(body.size());
  if (!body.ends_with('\n') || !seal.starts_with(kSealBegin) || !seal.ends_with(kSealEnd)) {
    return corrupt("does not end with its checksum; it was cut off or changed");
  }
  seal = seal.substr(kSealBegin.size(), kDigestChars);
  const Result<Digest128> said = Digest128::from_hex(seal);
  if (!said.ok() || *said != digest_of(body)) {
    return corrupt(fmt::format("checksum mismatch in its first {} bytes", body.size()));
  }
  return {};
}

}  // namespace stoker
