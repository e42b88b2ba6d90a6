// Implements http_store() of stoker/store.h: what a web server has, to be read.
#include <cerrno>
#include <utility>

#include "store/http/remote_object.h"
#include "store/text/percent.h"
#include "store/text/url.h"

namespace stoker {
namespace {

/// The URL of a key. "//" is as "/", for servers as for the callers of a store.
std::string url_of(const Url& base, const std::string& key) {
  std::string path = base.path + "/";
  for (const char c : percent_encode(key == "." ? "" : key, Slashes::keep))
    if (c != '/' || path.back() != '/') path += c;
  return base.origin() + path;
}

/// Paths below a URL; redirects to the same host.
///
/// Thread safety: immutable.
class WebProtocol final : public HttpProtocol {
 public:
  explicit WebProtocol(Url base) : base_(std::move(base)) {}

  Result<HttpRequest> make_request(HttpCall& call) override {
    HttpRequest request{.method = call.method,
                        .url = call.moved_to.empty() ? url_of(base_, call.key) : call.moved_to};
    for (const auto& [name, value] : call.headers)
      request.headers.push_back(std::string(name).append(": ").append(value));
    return request;
  }

  Verdict judge(HttpCall& call, const HttpResponse& response) override {
    const int status = response.status;
    const std::string_view to = response.header("location");
    if (status / 100 != 3 || to.empty()) return judge_status(response, "");
    const std::string from = call.moved_to.empty() ? url_of(base_, call.key) : call.moved_to;
    const std::string moved =
        to.starts_with("/") ? base_.origin() + std::string(to) : std::string(to);
    if (moved == from + "/") return {.status = {Code::invalid_argument, "is a folder", EISDIR}};
    const Result<Url> url = parse_url(moved);
    if (!url.ok() || url->origin() != base_.origin())
      return {.status = {Code::unsupported,
                         "the server redirects to another host, which is not followed; name " +
                             (url.ok() ? url->origin() : "the other address") + " itself",
                         EIO}};
    call.moved_to = moved;
    return {.next = Verdict::Next::again,
            .status = {Code::io_error, "the server redirects too often", EIO}};
  }

  std::string name_of(const std::string& key) const override {
    return base_.origin() + base_.path + (key.starts_with("/") ? "" : "/") + key;
  }

 private:
  const Url base_;
};

/// Thread safety: as ObjectStore.
class HttpStore final : public ObjectStore {
 public:
  HttpStore(const Url& base, HttpOptions options)
      : base_(base),
        client_(std::move(options), [base] { return std::make_unique<WebProtocol>(base); }) {}

  std::string identity_of(const std::string& key) override { return uri_of(key); }
  std::string uri_of(const std::string& key) override { return url_of(base_, key); }

  Result<std::unique_ptr<const Object>> open(const std::string& key,
                                             CachePolicy /*policy*/) override {
    STOKER_ASSIGN(RemoteVersion version, head_object(client_, key));
    return std::unique_ptr<const Object>(
        std::make_unique<RemoteObject>(client_, key, std::move(version)));
  }
  Result<Entry> look(const std::string& key) override {
    const Result<RemoteVersion> version = head_object(client_, key);
    if (version.ok()) return Entry{.kind = Kind::object, .info = version->info};
    if (version.status().os_error() == EISDIR) return Entry{.kind = Kind::folder};
    return version.status();
  }
  Status list(const std::string& folder, const Found& /*found*/) override {
    return unsupported(folder,
                       "a web server does not list its objects; name them, or use an index");
  }
  Result<std::unique_ptr<RangeSource>> make_source(std::uint32_t depth) override {
    return make_remote_source(client_, depth);
  }
  Result<std::unique_ptr<Upload>> upload(const std::string& key) override {
    return unsupported(key, "a web server is only read");
  }
  Status remove(const std::string& key) override {
    return unsupported(key, "a web server is only read");
  }

 private:
  Status unsupported(const std::string& key, const char* why) {
    return Status(Code::unsupported, why, EROFS).with_context(client_.name_of(key));
  }

  const Url base_;
  HttpClient client_;
};

}  // namespace

Result<std::shared_ptr<ObjectStore>> http_store(const std::string& url,
                                                const HttpOptions& options) {
  STOKER_ASSIGN(Url base, parse_url(url));
  while (base.path.ends_with("/")) base.path.pop_back();
  return std::shared_ptr<ObjectStore>(std::make_shared<HttpStore>(base, options));
}

}  // namespace stoker
