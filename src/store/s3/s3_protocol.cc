#include "store/s3/s3_protocol.h"

#include <curl/curl.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <utility>

#include "base/checksum.h"
#include "base/hex.h"
#include "store/credentials/credential_chain.h"
#include "store/s3/answers.h"
#include "store/s3/sigv4.h"
#include "store/text/percent.h"

namespace stoker {
namespace {

constexpr std::string_view kHashOfNothing =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_region(std::string_view text) {
  constexpr std::size_t kLengthMax = 40;
  return !text.empty() && text.size() <= kLengthMax &&
         std::ranges::all_of(text, [](char c) { return is_alphanumeric(c) || c == '-'; });
}

bool is_expiry(std::string_view code) {
  return code == "ExpiredToken" || code == "ExpiredTokenException" ||
         code == "TokenRefreshRequired";
}

bool is_transient(std::string_view code) {
  return code == "InternalError" || code == "RequestTimeout" || code == "ServiceUnavailable" ||
         code == "OperationAborted" || code == "BadDigest" || code == "XAmzContentSHA256Mismatch";
}

bool is_throttling(std::string_view code) {
  return code == "SlowDown" || code == "Throttling" || code == "ThrottlingException" ||
         code == "RequestLimitExceeded";
}

}  // namespace

Status check_s3_options(const std::string& bucket, const S3Options& options) {
  constexpr std::size_t kNameMin = 3;
  constexpr std::size_t kNameMax = 63;
  const bool is_name = bucket.size() >= kNameMin && bucket.size() <= kNameMax &&
                       is_alphanumeric(bucket.front()) && std::ranges::all_of(bucket, [](char c) {
                         return is_alphanumeric(c) || c == '-' || c == '.' || c == '_';
                       });
  if (!is_name)
    return {
        Code::invalid_argument,
        "s3://" + bucket + ": no bucket has such a name: 3 to 63 letters, digits, \"-\", \".\""};
  if (!options.region.empty() && !is_region(options.region))
    return {Code::invalid_argument, "S3: \"" + options.region + "\" is no region"};
  constexpr std::uint64_t kPartMin = std::uint64_t{5} << 20;
  constexpr std::uint64_t kPartMax = std::uint64_t{512} << 20;
  if (options.part_bytes < kPartMin || options.part_bytes > kPartMax)
    return {Code::invalid_argument, "S3: part_bytes must be between 5 MiB and 512 MiB"};
  if (options.parts_in_flight == 0)
    return {Code::invalid_argument, "S3: parts_in_flight must not be 0"};
  if (options.endpoint.empty()) return {};
  const Result<Url> url = parse_url(options.endpoint);
  return url.status().with_context("S3 endpoint");
}

S3Protocol::S3Protocol(std::string bucket, const S3Options& options)
    : bucket_(std::move(bucket)),
      options_(options),
      is_by_host_(options.addressing == S3Options::Addressing::virtual_host ||
                  (options.addressing == S3Options::Addressing::automatic &&
                   options.endpoint.empty() && bucket_.find('.') == std::string::npos)),
      credentials_(make_credential_source(options)),
      region_(options.region.empty() ? "us-east-1" : options.region) {}

std::string S3Protocol::name_of(const std::string& key) const {
  return "s3://" + bucket_ + "/" + (key == "." ? std::string() : key);
}

Url S3Protocol::endpoint(const std::string& region) const {
  const bool is_china = region.starts_with("cn-");
  return *parse_url(options_.endpoint.empty()
                        ? "https://s3." + region + ".amazonaws.com" + (is_china ? ".cn" : "")
                        : options_.endpoint);
}

Result<HttpRequest> S3Protocol::make_request(HttpCall& call) {
  STOKER_ASSIGN(const S3Credentials keys, credentials_.get());
  {
    MutexLock lock(mutex_);
    call.region = region_;
  }
  call.access_key_id = keys.access_key_id;
  call.ahead_seconds = ahead_seconds_.load(std::memory_order_relaxed);
  const Url server = endpoint(call.region);
  const std::string host = is_by_host_ ? bucket_ + "." + server.authority : server.authority;
  std::string path = server.path;
  while (path.ends_with("/")) path.pop_back();
  if (!is_by_host_) path += "/" + bucket_;
  path += "/" + percent_encode(call.key == "." ? "" : call.key, Slashes::keep);

  SigningScope scope{.access_key_id = keys.access_key_id,
                     .secret_access_key = keys.secret_access_key,
                     .region = call.region,
                     .now = std::time(nullptr) + call.ahead_seconds};
  SignedRequest to_sign{.method = call.method,
                        .path = path,
                        .query = call.query,
                        .headers = {{"host", host}, {"x-amz-date", amz_date(scope.now)}},
                        .payload_hash = std::string(kHashOfNothing)};
  HttpRequest request{
      .method = call.method, .url = server.scheme + "://" + host + path, .body = call.body};
  if (!call.query.empty()) request.url += "?" + canonical_query(call.query);
  if (!call.body.empty()) {
    STOKER_ASSIGN(const Sha256Digest digest, sha256(call.body));
    to_sign.payload_hash = format_hex(digest);
  }
  to_sign.headers.emplace_back("x-amz-content-sha256", to_sign.payload_hash);
  if (!keys.session_token.empty())
    to_sign.headers.emplace_back("x-amz-security-token", keys.session_token);
  if (options_.is_requester_paying)
    to_sign.headers.emplace_back("x-amz-request-payer", "requester");
  for (const auto& [name, value] : call.headers) {
    if (name.starts_with("x-amz-")) {
      to_sign.headers.emplace_back(name, value);
    } else {
      request.headers.push_back(std::string(name).append(": ").append(value));
    }
  }
  for (const auto& [name, value] : to_sign.headers)
    if (name != "host") request.headers.push_back(std::string(name).append(": ").append(value));
  if (credentials_.are_anonymous()) return request;
  STOKER_ASSIGN(const std::string authorization, sign_v4(to_sign, scope));
  request.headers.push_back("Authorization: " + authorization);
  return request;
}

Verdict S3Protocol::judge(HttpCall& call, const HttpResponse& response) {
  const bool is_success = response.status / 100 == 2;
  // CompleteMultipartUpload may say under status 200 that it failed.
  const std::optional<S3Error> error =
      response.body.empty() ? std::nullopt : parse_s3_error(response.body);
  if (is_success && !error) return {};
  const std::string code = error ? error->code : "";
  std::string detail = code;
  if (error && !error->message.empty()) detail += ": " + error->message;

  Verdict verdict = judge_status(response, detail);
  if (is_success)
    verdict.status = {Code::io_error, "the server answered that it failed: " + detail, EIO};
  if (is_transient(code) || is_throttling(code)) {
    verdict.next = Verdict::Next::retry;
    verdict.status = {Code::unavailable, "the server answered: " + detail, ETIMEDOUT};
    verdict.is_throttled |= is_throttling(code);
  }
  if (response.status / 100 == 3)
    verdict.status = {
        Code::unsupported,
        "the server redirects, to another endpoint or region than the one that is set", EIO};
  const std::string_view header = response.header("x-amz-bucket-region");
  const bool is_unread_head = call.method == "HEAD" && response.status == 400;
  bool is_corrected = correct_region(call, header.empty() && error ? error->region : header);
  if (!is_corrected && (response.status == 403 || code == "RequestTimeTooSkewed"))
    is_corrected = correct_clock(call, response);
  if (!is_corrected && !call.is_refreshed && (is_expiry(code) || is_unread_head)) {
    call.is_refreshed = true;
    is_corrected = credentials_.refuse(call.access_key_id);
  }
  if (is_corrected) verdict.next = Verdict::Next::again;
  return verdict;
}

/// Takes the region that the server names, if it is another one than that of the call.
bool S3Protocol::correct_region(const HttpCall& call, std::string_view named) {
  if (!is_region(named) || call.region == named) return false;
  MutexLock lock(mutex_);
  region_ = named;
  return true;
}

/// Takes the time that the server tells, if it is far from the one that the call was signed with.
bool S3Protocol::correct_clock(const HttpCall& call, const HttpResponse& response) {
  constexpr std::int64_t kToleratedSeconds = 300;  // servers tolerate 900
  const std::string date(response.header("date"));
  const std::time_t told = date.empty() ? -1 : curl_getdate(date.c_str(), nullptr);
  if (told <= 0) return false;
  const std::int64_t ahead = told - std::time(nullptr);
  if (std::abs(ahead - call.ahead_seconds) < kToleratedSeconds) return false;
  ahead_seconds_.store(ahead, std::memory_order_relaxed);
  return true;
}

}  // namespace stoker
