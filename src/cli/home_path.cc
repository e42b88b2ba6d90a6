#include "cli/home_path.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace stoker::cli {

std::string expand_home(const std::string& path) {
  if (!path.starts_with('~')) return path;
  const std::size_t end = std::min(path.find('/'), path.size());
  const std::string user = path.substr(1, end - 1);
  std::string home;
  if (const char* const variable = std::getenv("HOME"); user.empty() && variable != nullptr) {
    home = variable;
  } else {
    const passwd* const entry = user.empty() ? ::getpwuid(::getuid()) : ::getpwnam(user.c_str());
    if (entry == nullptr || entry->pw_dir == nullptr) return path;
    home = entry->pw_dir;
  }
  while (home.ends_with('/')) home.pop_back();
  const std::string expanded = home + path.substr(end);
  return expanded.empty() ? "/" : expanded;
}

}  // namespace stoker::cli
