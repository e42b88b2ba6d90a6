#include "store/text/url.h"

#include <algorithm>

namespace stoker {
namespace {

Status wrong_url(std::string_view text, std::string_view why) {
  return {Code::invalid_argument, without_secrets(text) + ": " + std::string(why)};
}

bool is_port(std::string_view text) {
  constexpr std::size_t kDigitsMax = 5;
  return !text.empty() && text.size() <= kDigitsMax &&
         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string without_secrets(std::string_view uri) {
  const std::size_t scheme_end = uri.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789+-.");
  const bool has_scheme = scheme_end < uri.size() && uri.substr(scheme_end).starts_with("://");
  const std::size_t begin = has_scheme ? scheme_end + 3 : 0;
  const std::size_t at = uri.rfind('@');
  const std::size_t end = uri.find_first_of("?#");
  std::string shown(uri.substr(0, begin));
  if (at == std::string_view::npos || at < begin)
    return shown.append(uri.substr(begin, end == std::string_view::npos ? end : end - begin));
  shown += "...";
  if (at < end) shown += uri.substr(at, end == std::string_view::npos ? end : end - at);
  return shown;
}

std::string Url::host() const {
  if (authority.starts_with("[")) return authority.substr(0, authority.find(']') + 1);
  return authority.substr(0, authority.find(':'));
}

Result<Url> parse_url(std::string_view text) {
  const std::size_t colon = text.find("://");
  const std::string_view scheme = text.substr(0, colon);
  if (colon == std::string_view::npos || (scheme != "http" && scheme != "https"))
    return wrong_url(text, "is no http:// or https:// URL");
  const std::string_view rest = text.substr(colon + 3);
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string authority(rest.substr(0, slash));
  if (authority.find('@') != std::string::npos)
    return wrong_url(text, "a user or password in a URL is not supported");
  if (text.find_first_of("?#") != std::string_view::npos)
    return wrong_url(text, "a query or a fragment in a URL is not supported");
  if (std::ranges::any_of(text, [](char c) { return c <= ' ' || c == '\x7f' || c == '\\'; }))
    return wrong_url(scheme, "a space or control character in a URL must be percent-encoded");

  Url url{.scheme = std::string(scheme),
          .authority = authority,
          .path = std::string(rest.substr(slash))};
  for (char& c : url.authority)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  const std::size_t host_end = url.host().size();
  if (host_end == 0 || url.host() == "[]") return wrong_url(text, "names no host");
  if (host_end < url.authority.size()) {
    const std::string port = url.authority.substr(host_end + 1);
    if (url.authority[host_end] != ':' || !is_port(port))
      return wrong_url(text, "has no valid port");
    if (port == (url.scheme == "https" ? "443" : "80")) url.authority.resize(host_end);
  }
  return url;
}

}  // namespace stoker
