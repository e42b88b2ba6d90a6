/// \file
/// AWS Signature Version 4, in headers. Pure: no clock, no network. Our own, because that of older
/// libcurls gets queries and paths wrong.
#pragma once

#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stoker/status.h"

namespace stoker {

/// A name and its value, neither of them encoded.
using NameValue = std::pair<std::string, std::string>;

/// What is signed.
struct SignedRequest {
  std::string method = "GET";
  std::string path = "/";             ///< Encoded once, as it is sent. Not normalized.
  std::vector<NameValue> query = {};  ///< In any order.
  std::vector<NameValue> headers =
      {};                         ///< All that are signed, "host" among them; names in any case.
  std::string payload_hash = {};  ///< Hex of its SHA-256, or "UNSIGNED-PAYLOAD".
};

/// Who signs, where and when.
struct SigningScope {
  std::string access_key_id;
  std::string secret_access_key;
  std::string region;
  std::string service = "s3";
  std::time_t now = 0;
};

/// Payload hash of a body that is protected by TLS alone, or of none.
inline constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";

/// "20130524T000000Z", the form of the header x-amz-date.
std::string amz_date(std::time_t now);

/// Returns the query as it is signed and sent: encoded, sorted by name and then value, "k" as "k=".
std::string canonical_query(const std::vector<NameValue>& query);

/// Returns the value of the header Authorization. The headers must contain x-amz-date with the time
/// of the scope. `unsupported` if libcrypto offers no SHA-256.
Result<std::string> sign_v4(const SignedRequest& request, const SigningScope& scope);

}  // namespace stoker
