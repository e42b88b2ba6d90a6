#include "store/credentials/key_servers.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "io/files/file_ops.h"
#include "io/files/text_file.h"
#include "store/credentials/key_text.h"
#include "store/http/http_client.h"
#include "store/text/percent.h"
#include "store/text/url.h"

namespace stoker {

using namespace std::chrono_literals;

namespace {

/// Paths of a server, without a signature. Messages name the server and not the path.
///
/// Thread safety: immutable.
class KeyProtocol final : public HttpProtocol {
 public:
  KeyProtocol(std::string origin, std::string name)
      : origin_(std::move(origin)), name_(std::move(name)) {}

  Result<HttpRequest> make_request(HttpCall& call) override {
    HttpRequest request{.method = call.method, .url = origin_ + call.key, .body = call.body};
    for (const auto& [name, value] : call.headers)
      request.headers.push_back(std::string(name).append(": ").append(value));
    return request;
  }
  Verdict judge(HttpCall& /*call*/, const HttpResponse& response) override {
    return judge_status(response, "");
  }
  std::string name_of(const std::string& /*key*/) const override { return name_; }

 private:
  const std::string origin_;
  const std::string name_;
};

/// Performs one call; few and short attempts, because the training waits.
Result<std::string> ask(const std::string& origin, const std::string& name, HttpOptions options,
                        HttpCall& call) {
  options.timeout = 10s;
  options.connect_timeout = std::min<nanoseconds>(options.connect_timeout, 2s);
  options.attempts_max = 3;
  HttpClient client(options, [&] { return std::make_unique<KeyProtocol>(origin, name); });
  STOKER_TRY(client.perform(call));
  return std::move(call.response.body);
}

HttpOptions without_proxy(HttpOptions options) {
  options.http_proxy.clear();
  options.https_proxy.clear();
  return options;
}

/// Reads a token, which is never part of a message.
Result<std::string> read_token(const std::string& path) {
  constexpr std::size_t kTokenBytesMax = std::size_t{64} << 10;
  STOKER_ASSIGN(std::string token, read_text_file(posix_file_ops(), path, kTokenBytesMax));
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  if (token.empty() || std::ranges::any_of(token, [](char c) { return c < ' ' || c > '~'; }))
    return Status(Code::corrupt, path + ": contains no token", EINVAL);
  return token;
}

Result<FetchedCredentials> named(Result<FetchedCredentials> fetched, const std::string& name) {
  if (fetched.ok()) return fetched;
  return fetched.status().with_context(name);
}

/// Whether a token may be sent there without TLS.
bool is_nearby(const Url& url) {
  const std::string host = url.host();
  return host == "localhost" || host.starts_with("127.") || host == "[::1]" ||
         host == "169.254.170.2" || host == "169.254.170.23" || host == "[fd00:ec2::23]";
}

}  // namespace

Result<FetchedCredentials> fetch_web_identity(const S3CredentialSources& places,
                                              const std::string& region, const HttpOptions& http) {
  const std::string origin = !places.sts_endpoint.empty()
                                 ? places.sts_endpoint
                                 : "https://sts." + (region.empty() ? "us-east-1" : region) +
                                       ".amazonaws.com" + (region.starts_with("cn-") ? ".cn" : "");
  STOKER_ASSIGN(const Url server, parse_url(origin));
  STOKER_ASSIGN(const std::string token, read_token(places.web_identity_token_file));
  const std::string session =
      places.role_session_name.empty() ? "stoker" : places.role_session_name;
  const std::string body = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=" +
                           percent_encode(places.role_arn) +
                           "&RoleSessionName=" + percent_encode(session) +
                           "&WebIdentityToken=" + percent_encode(token);
  HttpCall call{.method = "POST",
                .key = "/",
                .headers = {{"Content-Type", "application/x-www-form-urlencoded"}},
                .body = std::as_bytes(std::span(body))};
  const std::string name = "credentials of a web identity from " + server.origin();
  STOKER_ASSIGN(const std::string answer, ask(server.origin(), name, http, call));
  return named(parse_sts_keys(answer), name);
}

Result<FetchedCredentials> fetch_from_container(const S3CredentialSources& places,
                                                const HttpOptions& http) {
  STOKER_ASSIGN(const Url server, parse_url(places.container_url));
  const std::string name = "credentials of the container from " + server.origin();
  if (server.scheme != "https" && !is_nearby(server))
    return Status(Code::denied, name + ": refused, because it is neither this machine nor https",
                  EACCES);
  std::string token = places.container_token;
  if (!places.container_token_file.empty()) {
    STOKER_ASSIGN(token, read_token(places.container_token_file));
  }
  HttpCall call{.key = server.path.empty() ? "/" : server.path};
  if (!token.empty()) call.headers.emplace_back("Authorization", token);
  STOKER_ASSIGN(
      const std::string answer,
      ask(server.origin(), name, server.scheme == "https" ? http : without_proxy(http), call));
  return named(parse_json_keys(answer), name);
}

Result<FetchedCredentials> fetch_from_metadata(const S3CredentialSources& places,
                                               const HttpOptions& http) {
  const std::string path = "/latest/meta-data/iam/security-credentials/";
  STOKER_ASSIGN(const Url server, parse_url(places.metadata_url));
  const std::string name = "credentials of the instance from " + server.origin();
  const HttpOptions direct = without_proxy(http);
  HttpCall begin{.method = "PUT",
                 .key = "/latest/api/token",
                 .headers = {{"X-aws-ec2-metadata-token-ttl-seconds", "21600"}}};
  STOKER_ASSIGN(const std::string token, ask(server.origin(), name, direct, begin));
  HttpCall list{.key = path, .headers = {{"X-aws-ec2-metadata-token", token}}};
  STOKER_ASSIGN(std::string role, ask(server.origin(), name, direct, list));
  role = role.substr(0, role.find('\n'));
  HttpCall get{.key = path + percent_encode(role), .headers = list.headers};
  STOKER_ASSIGN(const std::string answer, ask(server.origin(), name, direct, get));
  return named(parse_json_keys(answer), name);
}

}  // namespace stoker
