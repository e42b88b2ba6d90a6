#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataset/input/input.h"
#include "stoker/status.h"

namespace stoker::internal {

struct TreeFile {
  std::string name;  ///< Relative to the root, from visible_name().
  std::uint64_t size_bytes = 0;
  std::int64_t mtime_ns = 0;
  std::string hidden_path = {};  ///< Empty: `name` is the path.

  /// The path, relative to the root.
  const std::string& path() const { return hidden_path.empty() ? name : hidden_path; }
};

struct TreeFiles {
  std::vector<TreeFile> files;
  std::vector<std::string> folders;  ///< Directories in the root itself, also empty ones.
  std::vector<LeftOut> left_out;
};

/// Replaces the leading dot of each file or directory name by "_", for keys.
std::string visible_name(std::string path);

/// Returns the regular files below `root`, without those below `excluded` (which may be empty).
/// Links are followed, also to directories, unless the directory contains the link. Hidden files
/// and directories are left out unless `with_hidden`.
Result<TreeFiles> walk_tree(const std::string& root, const std::string& excluded, bool with_hidden);

}  // namespace stoker::internal
