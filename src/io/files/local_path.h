#pragma once

#include <string>
#include <string_view>

#include "stoker/status.h"

namespace stoker {

/// `unsupported` for a URI, such as "s3://bucket/run", where only a path has a meaning: a local
/// directory of that name would be created otherwise.
inline Status check_local_path(std::string_view path) {
  if (path.find("://") == std::string_view::npos) return {};
  return {Code::unsupported, std::string(path) + ": only a local path can be written to here"};
}

}  // namespace stoker
