#include "store/s3/sigv4.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/checksum.h"
#include "base/hex.h"
#include "store/text/percent.h"

namespace stoker {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Result<Sha256Digest> hmac_sha256(std::span<const std::byte> key, std::string_view text) {
  Sha256Digest digest;
  unsigned size = 0;
  const auto* const data = reinterpret_cast<const unsigned char*>(text.data());
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), data, text.size(),
           reinterpret_cast<unsigned char*>(digest.data()), &size) == nullptr)
    return Status(Code::unsupported, "libcrypto offers no HMAC with SHA-256");
  return digest;
}

/// Returns lower-case names, values without outer spaces and with single inner ones, by name.
std::vector<NameValue> canonical_headers(const std::vector<NameValue>& headers) {
  std::vector<NameValue> out;
  out.reserve(headers.size());
  for (const auto& [name, value] : headers) {
    std::string lower = name;
    for (char& c : lower)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    std::string trimmed;
    for (const char c : value) {
      const bool is_space = c == ' ' || c == '\t';
      if (is_space && (trimmed.empty() || trimmed.back() == ' ')) continue;
      trimmed += is_space ? ' ' : c;
    }
    if (!trimmed.empty() && trimmed.back() == ' ') trimmed.pop_back();
    out.emplace_back(std::move(lower), std::move(trimmed));
  }
  std::ranges::stable_sort(out, {}, &NameValue::first);
  return out;
}

}  // namespace

std::string amz_date(std::time_t now) {
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &utc);
  return text.data();
}

std::string canonical_query(const std::vector<NameValue>& query) {
  std::vector<NameValue> encoded;
  encoded.reserve(query.size());
  for (const auto& [name, value] : query)
    encoded.emplace_back(percent_encode(name), percent_encode(value));
  std::ranges::sort(encoded);
  std::string out;
  for (const auto& [name, value] : encoded) {
    if (!out.empty()) out += '&';
    out += name + "=" + value;
  }
  return out;
}

Result<std::string> sign_v4(const SignedRequest& request, const SigningScope& scope) {
  std::string canonical =
      request.method + "\n" + request.path + "\n" + canonical_query(request.query) + "\n";
  std::string names;
  for (const auto& [name, value] : canonical_headers(request.headers)) {
    canonical += name + ":" + value + "\n";
    if (!names.empty()) names += ';';
    names += name;
  }
  canonical += "\n" + names + "\n" + request.payload_hash;
  STOKER_ASSIGN(const Sha256Digest hash, sha256(bytes_of(canonical)));

  const std::string date = amz_date(scope.now);
  const std::string day = date.substr(0, 8);
  const std::string where = day + "/" + scope.region + "/" + scope.service + "/aws4_request";
  const std::string to_sign = "AWS4-HMAC-SHA256\n" + date + "\n" + where + "\n" + format_hex(hash);

  STOKER_ASSIGN(Sha256Digest key, hmac_sha256(bytes_of("AWS4" + scope.secret_access_key), day));
  for (const std::string_view part :
       {std::string_view(scope.region), std::string_view(scope.service),
        std::string_view("aws4_request"), std::string_view(to_sign)}) {
    STOKER_ASSIGN(key, hmac_sha256(key, part));
  }
  return "AWS4-HMAC-SHA256 Credential=" + scope.access_key_id + "/" + where +
         ",SignedHeaders=" + names + ",Signature=" + format_hex(key);
}

}  // namespace stoker
