// Implements open_store() of stoker/store.h.
#include <algorithm>
#include <optional>
#include <string_view>

#include "stoker/store.h"
#include "store/text/percent.h"
#include "store/text/url.h"

namespace stoker {
namespace {

/// Returns "s3" of "s3://b", or nothing for a path.
std::optional<std::string_view> scheme_of(std::string_view uri) {
  const std::string_view scheme = uri.substr(0, uri.find(':'));
  const bool is_name =
      scheme.size() > 1 && scheme.size() < uri.size() &&
      std::ranges::all_of(
          scheme,
          [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+'; });
  const bool has_slashes = uri.substr(scheme.size()).starts_with("://");
  if (is_name && (has_slashes || scheme == "file" || scheme == "pipe")) return scheme;
  return std::nullopt;
}

Status refused(const std::string& uri, Code code, std::string_view why) {
  return {code, without_secrets(uri) + ": " + std::string(why)};
}

std::string key_or_top(std::string_view key) {
  while (key.ends_with("/")) key.remove_suffix(1);
  return key.empty() ? "." : std::string(key);
}

Result<StorePlace> open_file(const std::string& uri) {
  std::string_view path = std::string_view(uri).substr(5);
  if (path.starts_with("//localhost/")) path.remove_prefix(11);
  if (path.starts_with("///")) path.remove_prefix(2);
  if (!path.starts_with("/") || path.starts_with("//"))
    return refused(uri, Code::invalid_argument, "a file: URI has an absolute path: file:///data");
  std::optional<std::string> plain = percent_decode(path);
  if (!plain) return refused(uri, Code::invalid_argument, "a \"%\" without two hex digits");
  return StorePlace{.store = local_store(), .key = *std::move(plain)};
}

Result<StorePlace> open_bucket(const std::string& uri, const S3Options& options) {
  const std::string_view rest = std::string_view(uri).substr(5);
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  if (rest.substr(0, slash).find_first_of(":@") != std::string_view::npos)
    return refused("s3://...", Code::invalid_argument,
                   "keys are not part of a URI; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
  STOKER_ASSIGN(std::shared_ptr<ObjectStore> store,
                s3_store(std::string(rest.substr(0, slash)), options));
  return StorePlace{.store = std::move(store),
                    .key = key_or_top(rest.substr(std::min(slash + 1, rest.size())))};
}

Result<StorePlace> open_web(const std::string& uri, const HttpOptions& options) {
  STOKER_ASSIGN(const Url url, parse_url(uri));
  const std::optional<std::string> path = percent_decode(url.path);
  if (!path) return refused(uri, Code::invalid_argument, "a \"%\" without two hex digits");
  STOKER_ASSIGN(std::shared_ptr<ObjectStore> store, http_store(url.origin(), options));
  const std::string_view key = *path;
  return StorePlace{
      .store = std::move(store),
      .key = key_or_top(key.substr(std::min(key.find_first_not_of('/'), key.size())))};
}

}  // namespace

Result<StorePlace> open_store(const std::string& uri, const S3Options& options) {
  const std::optional<std::string_view> scheme = scheme_of(uri);
  if (!scheme) return StorePlace{.store = local_store(), .key = uri};
  if (*scheme == "file") return open_file(uri);
  if (*scheme == "s3") return open_bucket(uri, options);
  if (*scheme == "http" || *scheme == "https") return open_web(uri, options.http);
  if (*scheme == "pipe")
    return refused("pipe", Code::unsupported,
                   "commands are not run to read data; name the bucket itself: s3://bucket/prefix");
  return refused(uri, Code::unsupported,
                 "no such store; there are paths, file:, s3://, http:// and https://");
}

}  // namespace stoker
