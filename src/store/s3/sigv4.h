/// \file
/// AWS Signature Version 4, in headers. Pure: no clock, no network. Our own, because that of older
/// libcurls gets queries and paths wrong.
#pragma once

#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/status.h"
#include "store/http/http_call.h"

namespace stoker {

/// What is signed.
struct SignedRequest {
  std::string method = "GET";
  std::string path = "/";               ///< Encoded once, as it is sent. Not normalized.
  std::vector<NameValue> query = {};    ///< Not encoded, in any order.
  std::vector<NameValue> headers = {};  ///< All that are signed; "host" must be among them.
  std::string payload_hash = {};        ///< Hex of its SHA-256, or "UNSIGNED-PAYLOAD".
};

/// Who signs, where and when.
struct SigningScope {
  std::string access_key_id;
  std::string secret_access_key;
  std::string region;
  std::string service = "s3";
  std::time_t now = 0;
};

/// "20130524T000000Z", the form of the header x-amz-date.
std::string amz_date(std::time_t now);

/// Returns the query as it is signed and sent: encoded, sorted by name and then value, "k" as "k=".
std::string canonical_query(const std::vector<NameValue>& query);

/// Returns the value of the header Authorization. The headers must contain x-amz-date with the time
/// of the scope. `unsupported` if libcrypto offers no SHA-256.
Result<std::string> sign_v4(const SignedRequest& request, const SigningScope& scope);

}  // namespace stoker
