#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <string>

#include "support/temp_dir.h"

namespace stoker::testing {

/// All that is below a directory, by path: kind, mode, time of the last change, and contents.
using TreeSnapshot = std::map<std::string, std::string>;

inline TreeSnapshot snapshot_of(const std::string& directory) {
  namespace fs = std::filesystem;
  TreeSnapshot found;
  const auto add = [&](const fs::path& path) {
    struct stat info{};
    if (::lstat(path.c_str(), &info) != 0) return;
    std::string text = std::to_string(info.st_mode) + " " + std::to_string(info.st_mtim.tv_sec) +
                       "." + std::to_string(info.st_mtim.tv_nsec) + " " +
                       std::to_string(info.st_nlink) + " ";
    if (S_ISREG(info.st_mode)) text += contents_of(path.string());
    if (S_ISLNK(info.st_mode)) text += fs::read_symlink(path).string();
    found.emplace(path.string(), std::move(text));
  };
  add(directory);
  for (const auto& entry : fs::recursive_directory_iterator(directory)) add(entry.path());
  return found;
}

/// The first path at which two differ; empty if they are the same.
inline std::string difference_of(const TreeSnapshot& before, const TreeSnapshot& after) {
  for (const auto& [path, text] : before) {
    const auto found = after.find(path);
    if (found == after.end()) return path + " is gone";
    if (found->second != text) return path + " was changed";
  }
  for (const auto& [path, text] : after)
    if (!before.contains(path)) return path + " is new";
  return "";
}

}  // namespace stoker::testing
