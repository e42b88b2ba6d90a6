#include "dataset/shards/shard_glob.h"

#include <fnmatch.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace stoker::internal {
namespace {

using Kind = ObjectStore::Kind;

/// Matches the pattern name by name.
class Glob {
 public:
  Glob(ObjectStore& store, const std::string& pattern) : store_(store), pattern_(pattern) {}

  Result<std::vector<std::string>> run() {
    // The folders before the first name with a wildcard need not be listed, and are kept as
    // written.
    const std::size_t special = std::min(pattern_.find_first_of("*?[\\"), pattern_.size());
    const std::size_t slash = pattern_.rfind('/', special);
    const std::size_t begin = slash == std::string::npos ? 0 : slash + 1;
    STOKER_TRY(descend(pattern_.substr(0, begin), begin));
    if (found_.empty()) return Status(Code::not_found, pattern_ + ": no file matches");
    std::ranges::sort(found_);
    return std::move(found_);
  }

 private:
  /// `matched`: what the first `at` characters of the pattern matched; empty, or ends with "/".
  Status descend(const std::string& matched, std::size_t at) {
    const std::size_t end = std::min(pattern_.find('/', at), pattern_.size());
    const std::size_t next = std::min(pattern_.find_first_not_of('/', end), pattern_.size());
    const std::string slashes = pattern_.substr(end, next - end);
    const std::string name = pattern_.substr(at, end - at);
    const bool is_last = next == pattern_.size();
    if (name.empty()) {  // the pattern ended with a slash
      found_.push_back(matched);
      return {};
    }
    if (name == "." || name == "..") return take(matched + name + slashes, next, is_last);
    STOKER_ASSIGN(const auto names, matches(matched, name, /*folders=*/!slashes.empty()));
    for (const std::string& each : names) STOKER_TRY(take(matched + each + slashes, next, is_last));
    return {};
  }

  Status take(const std::string& matched, std::size_t next, bool is_last) {
    if (!is_last) return descend(matched, next);
    found_.push_back(matched);
    return {};
  }

  Result<std::vector<std::string>> matches(const std::string& folder, const std::string& name,
                                           bool folders) {
    std::vector<std::string> names;
    const Status status = store_.list(folder_of(folder), [&](const std::string& each, Kind kind) {
      if ((!folders || kind == Kind::folder) &&
          ::fnmatch(name.c_str(), each.c_str(), FNM_PERIOD) == 0)
        names.push_back(each);
      return true;
    });
    if (status.ok() || status.os_error() == ENOTDIR) return names;
    if (status.os_error() != 0) return Status::from_errno(status.os_error(), "glob", pattern_);
    return status.with_context("glob " + pattern_);
  }

  static std::string folder_of(std::string matched) {
    while (matched.size() > 1 && matched.ends_with('/')) matched.pop_back();
    return matched.empty() ? "." : matched;
  }

  ObjectStore& store_;
  const std::string& pattern_;
  std::vector<std::string> found_;
};

}  // namespace

bool is_glob(std::string_view name) noexcept {
  return name.find_first_of("*?[") != std::string_view::npos;
}

Result<std::vector<std::string>> match_glob(ObjectStore& store, const std::string& pattern) {
  return Glob(store, pattern).run();
}

}  // namespace stoker::internal
