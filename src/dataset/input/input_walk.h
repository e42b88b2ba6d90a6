#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataset/input/input.h"
#include "stoker/status.h"

namespace stoker::internal {

struct TreeFile {
  std::string name;  ///< Relative to the root, as visible_name() has it.
  std::uint64_t size_bytes = 0;
  std::int64_t mtime_ns = 0;
  std::string hidden_path = {};  ///< Empty: `name` is the path.

  /// Where it lies, relative to the root.
  const std::string& path() const { return hidden_path.empty() ? name : hidden_path; }
};

struct TreeFiles {
  std::vector<TreeFile> files;
  std::vector<std::string> folders;  ///< Those in the root itself, whatever is in them.
  std::vector<LeftOut> left_out;
};

/// The path with "_" for the dot that a file's or directory's name begins with, for keys.
std::string visible_name(std::string path);

/// The regular files below `root`, without those below `excluded` (which may be empty). Links are
/// followed, those to directories too, unless one leads to a directory that it lies in. Hidden
/// files and directories are left out unless `with_hidden`.
Result<TreeFiles> walk_tree(const std::string& root, const std::string& excluded, bool with_hidden);

}  // namespace stoker::internal
