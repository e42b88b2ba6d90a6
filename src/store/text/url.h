/// \file
/// The URLs that name a server and a folder on it.
#pragma once

#include <string>
#include <string_view>

#include "stoker/status.h"

namespace stoker {

/// "https://host:8080/a/b", in parts.
struct Url {
  std::string scheme;     ///< "http" or "https".
  std::string authority;  ///< Host, and port if it is not the scheme's: as in a Host header.
  std::string path;       ///< As written, percent-encoded; "" or from the first "/".

  std::string host() const;  ///< Without the port.
  std::string origin() const { return scheme + "://" + authority; }
};

/// `invalid_argument` for anything but http and https, and for a URL with a user, a password, a
/// query, a fragment, spaces or control characters. The message is without_secrets().
Result<Url> parse_url(std::string_view text);

/// Returns what a message may show of a URI that is refused, whatever it was meant to be: no query,
/// no fragment, and nothing that may be a user or a password.
std::string without_secrets(std::string_view uri);

}  // namespace stoker
