#include "store/http/curl_handle.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <span>

namespace stoker {
namespace {

template <typename Value>
bool set(CURL* easy, CURLoption option, Value value) {
  return curl_easy_setopt(easy, option, value) == CURLE_OK;
}

std::size_t on_head(char* data, std::size_t size, std::size_t count, void* answer) {
  return static_cast<HttpAnswer*>(answer)->take_head_line({data, size * count}) ? size * count : 0;
}

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* answer) {
  const auto bytes = std::as_bytes(std::span(data, size * count));
  return static_cast<HttpAnswer*>(answer)->take_body(bytes) ? bytes.size() : 0;
}

/// Sets what is the same for every request.
bool set_connection(CURL* easy, const HttpOptions& options, const std::string& ca_file,
                    const std::string& proxy) {
  const auto connect_ms =
      std::chrono::ceil<std::chrono::milliseconds>(options.connect_timeout).count();
  bool is_set = set(easy, CURLOPT_NOSIGNAL, 1L) && set(easy, CURLOPT_PATH_AS_IS, 1L) &&
                // One connection per request: HTTP/2 would send all of them over one.
                set(easy, CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1}) &&
                set(easy, CURLOPT_HTTP09_ALLOWED, 0L) && set(easy, CURLOPT_FOLLOWLOCATION, 0L) &&
                set(easy, CURLOPT_HTTP_CONTENT_DECODING, 0L) &&
                set(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L) &&
                set(easy, CURLOPT_SSLVERSION, long{CURL_SSLVERSION_TLSv1_2}) &&
                set(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(connect_ms)) &&
                set(easy, CURLOPT_TCP_KEEPALIVE, 1L) &&
                // S3 closes a connection that was idle for about 5 s.
                set(easy, CURLOPT_MAXAGE_CONN, 4L) &&
                set(easy, CURLOPT_DNS_SHUFFLE_ADDRESSES, 1L) &&
                // Set even if empty: libcurl would look into the environment.
                set(easy, CURLOPT_PROXY, proxy.c_str()) &&
                set(easy, CURLOPT_NOPROXY, options.no_proxy.c_str());
#if LIBCURL_VERSION_NUM >= 0x075500
  is_set = is_set && set(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
  is_set = is_set && set(easy, CURLOPT_PROTOCOLS, long{CURLPROTO_HTTP | CURLPROTO_HTTPS});
#endif
  return is_set && (ca_file.empty() || set(easy, CURLOPT_CAINFO, ca_file.c_str()));
}

bool set_request(CURL* easy, const HttpRequest& request) {
  if (!set(easy, CURLOPT_URL, request.url.c_str())) return false;
  if (request.method == "GET") return set(easy, CURLOPT_HTTPGET, 1L);
  if (request.method == "HEAD") return set(easy, CURLOPT_NOBODY, 1L);
  if (request.method == "PUT" || request.method == "POST") {
    constexpr long kUploadBuffer = 512L << 10;
    const char* const body =
        request.body.empty() ? "" : reinterpret_cast<const char*>(request.body.data());
    if (!set(easy, CURLOPT_POST, 1L) || !set(easy, CURLOPT_POSTFIELDS, body) ||
        !set(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size())) ||
        !set(easy, CURLOPT_UPLOAD_BUFFERSIZE, kUploadBuffer))
      return false;
  }
  return set(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
}

/// Whether another attempt may do better: the list of the AWS CRT, and names that do not resolve
/// for a moment.
bool is_transient(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR: return true;
    default: return false;
  }
}

}  // namespace

void start_libcurl() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

CurlHeaders make_headers(const HttpRequest& request) {
  curl_slist* list = nullptr;
  // No "Expect: 100-continue", which costs a second where a server does not answer it.
  for (const char* const line : {"Accept-Encoding: identity", "Expect:", "Content-Type:"})
    list = curl_slist_append(list, line);
  for (const std::string& line : request.headers) list = curl_slist_append(list, line.c_str());
  return CurlHeaders(list);
}

bool set_up(CURL* easy, const HttpOptions& options, const std::string& ca_file,
            const HttpRequest& request, const CurlHeaders& headers, HttpAnswer& answer,
            std::uint64_t expected_bytes) {
  constexpr std::uint64_t kBufferMin = std::uint64_t{16} << 10;
  constexpr std::uint64_t kBufferMax = std::uint64_t{512} << 10;
  const auto buffer_bytes = static_cast<long>(std::clamp(expected_bytes, kBufferMin, kBufferMax));
  const std::string& proxy =
      request.url.starts_with("https:") ? options.https_proxy : options.http_proxy;
  return easy != nullptr && set_connection(easy, options, ca_file, proxy) &&
         set_request(easy, request) && set(easy, CURLOPT_HTTPHEADER, headers.get()) &&
         set(easy, CURLOPT_BUFFERSIZE, buffer_bytes) &&
         set(easy, CURLOPT_HEADERFUNCTION, &on_head) && set(easy, CURLOPT_HEADERDATA, &answer) &&
         set(easy, CURLOPT_WRITEFUNCTION, &on_body) && set(easy, CURLOPT_WRITEDATA, &answer);
}

Verdict judge_transport(CURLcode code, std::string_view detail, bool& is_sent) {
  is_sent = code != CURLE_COULDNT_RESOLVE_HOST && code != CURLE_COULDNT_RESOLVE_PROXY &&
            code != CURLE_COULDNT_CONNECT && code != CURLE_SSL_CONNECT_ERROR;
  const std::string why = curl_easy_strerror(code);
  if (is_transient(code))
    return {.next = Verdict::Next::retry, .status = {Code::unavailable, why, ETIMEDOUT}};
  if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE)
    return {.status = {Code::denied,
                       (detail.empty() ? why : std::string(detail)) +
                           "; for a private authority, set ca_file or AWS_CA_BUNDLE",
                       EACCES}};
  return {.status = {Code::io_error, why, EIO}};
}

std::string find_ca_file() {
  for (const char* const path :
       {"/etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Arch, Alpine
        "/etc/pki/tls/certs/ca-bundle.crt",                   // Fedora, RHEL, Amazon Linux
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // the same, newer
        "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"})       // SUSE; Alpine, BSD
    if (::access(path, R_OK) == 0) return path;
  return {};
}

}  // namespace stoker
