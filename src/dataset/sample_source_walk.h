#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataset/sample_source.h"
#include "stoker/status.h"

namespace stoker::internal {

struct TreeFile {
  std::string name;  ///< Relative to the root; of a hidden file with "_" for the dot, as keys need.
  std::uint64_t size_bytes = 0;
  std::int64_t mtime_ns = 0;
  bool is_hidden = false;  ///< The base name begins with a dot.

  /// Where it lies, relative to the root.
  std::string path() const;
};

struct TreeFiles {
  std::vector<TreeFile> files;
  std::vector<std::string> folders;  ///< Those in the root itself, whatever is in them.
  std::vector<LeftOut> left_out;
};

/// The regular files below `root`, without those below `excluded` (which may be empty). Links are
/// followed, those to directories too, unless one leads to a directory that it lies in. Hidden
/// files and directories are left out unless `with_hidden`.
Result<TreeFiles> walk_tree(const std::string& root, const std::string& excluded, bool with_hidden);

}  // namespace stoker::internal
