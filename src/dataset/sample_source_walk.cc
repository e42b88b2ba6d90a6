#include "dataset/sample_source_walk.h"

#include <sys/stat.h>

#include <cerrno>

#include "io/file_ops.h"

namespace stoker::internal {
namespace {

constexpr int kDepthMax = 64;

struct Place {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const Place&) const = default;
};

Place place_of(const std::string& path) {
  struct stat info{};
  if (path.empty() || ::stat(path.c_str(), &info) != 0) return {};
  return {info.st_dev, info.st_ino};
}

class Walk {
 public:
  Walk(const std::string& root, const std::string& excluded)
      : root_(root), excluded_(place_of(excluded)) {}

  Status run() { return walk("", 0); }

  TreeFiles found;

 private:
  Status walk(const std::string& prefix, int depth) {
    const std::string directory = prefix.empty() ? root_ : root_ + "/" + prefix;
    if (depth > kDepthMax)
      return Status(Code::invalid_argument, directory + ": directories are nested too deeply");
    STOKER_ASSIGN(const std::vector<std::string> names, posix_file_ops().list(directory));
    for (const std::string& name : names) {
      if (name.starts_with('.')) continue;
      STOKER_TRY(visit(prefix.empty() ? name : prefix + "/" + name, depth));
    }
    return {};
  }

  Status visit(std::string name, int depth) {
    const std::string path = root_ + "/" + name;
    struct stat info{};
    if (::lstat(path.c_str(), &info) != 0) return Status::from_errno(errno, "stat", path);
    if (S_ISDIR(info.st_mode)) {
      if (Place{info.st_dev, info.st_ino} == excluded_) return {};
      if (depth == 0) found.folders.push_back(name);
      return walk(name, depth + 1);
    }
    if (S_ISLNK(info.st_mode) && ::stat(path.c_str(), &info) != 0)
      return Status::from_errno(errno, "follow link", path);
    if (!S_ISREG(info.st_mode)) {
      found.left_out.push_back(name + ": not a regular file");
      return {};
    }
    found.files.push_back({.name = std::move(name),
                           .size_bytes = static_cast<std::uint64_t>(info.st_size),
                           .mtime_ns = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec});
    return {};
  }

  const std::string& root_;
  Place excluded_;
};

}  // namespace

Result<TreeFiles> walk_tree(const std::string& root, const std::string& excluded) {
  Walk walk(root, excluded);
  STOKER_TRY(walk.run());
  return std::move(walk.found);
}

}  // namespace stoker::internal
