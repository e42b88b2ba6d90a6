#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stoker/status.h"

namespace stoker::internal {

struct TreeFile {
  std::string name;  ///< Relative to the root.
  std::uint64_t size_bytes = 0;
  std::int64_t mtime_ns = 0;
};

struct TreeFiles {
  std::vector<TreeFile> files;
  std::vector<std::string> folders;   ///< Those in the root itself, whatever is in them.
  std::vector<std::string> left_out;  ///< "NAME: why".
};

/// The regular files below `root`, without those below `excluded` (which may be empty). Links to
/// files are followed; links to directories are not, because they may lead in circles. Hidden files
/// and directories are left out.
Result<TreeFiles> walk_tree(const std::string& root, const std::string& excluded);

}  // namespace stoker::internal
