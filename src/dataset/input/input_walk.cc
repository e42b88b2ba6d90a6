#include "dataset/input/input_walk.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "io/files/file_ops.h"

namespace stoker::internal {
namespace {

constexpr std::size_t kDepthMax = 65;
constexpr std::string_view kHidden = "hidden; --hidden packs hidden files (hidden=True in Python)";

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
  Walk(const std::string& root, const std::string& excluded, bool with_hidden)
      : root_(root), excluded_(place_of(excluded)), with_hidden_(with_hidden) {}

  Status run() {
    above_.push_back(place_of(root_));
    return walk("");
  }

  TreeFiles found;

 private:
  Status walk(const std::string& prefix) {
    const std::string directory = prefix.empty() ? root_ : root_ + "/" + prefix;
    if (above_.size() > kDepthMax)
      return Status(Code::invalid_argument, directory + ": directories are nested too deeply");
    STOKER_ASSIGN(const std::vector<std::string> names, posix_file_ops().list(directory));
    for (const std::string& name : names) {
      std::string path = prefix.empty() ? name : prefix + "/" + name;
      if (name.starts_with('.') && !with_hidden_)
        found.left_out.push_back({.name = std::move(path), .why = std::string(kHidden)});
      else
        STOKER_TRY(visit(std::move(path)));
    }
    return {};
  }

  Status visit(std::string name) {
    const std::string path = root_ + "/" + name;
    struct stat info{};
    if (::lstat(path.c_str(), &info) != 0) return Status::from_errno(errno, "stat", path);
    if (S_ISLNK(info.st_mode) && ::stat(path.c_str(), &info) != 0)
      return Status::from_errno(errno, "follow link", path);
    if (S_ISDIR(info.st_mode)) return enter(std::move(name), {info.st_dev, info.st_ino});
    if (!S_ISREG(info.st_mode)) {
      found.left_out.push_back({.name = std::move(name), .why = "not a regular file"});
      return {};
    }
    std::string visible = visible_name(name);
    if (visible == name) name.clear();
    found.files.push_back({.name = std::move(visible),
                           .size_bytes = static_cast<std::uint64_t>(info.st_size),
                           .mtime_ns = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec,
                           .hidden_path = std::move(name)});
    return {};
  }

  Status enter(std::string name, Place place) {
    if (place == excluded_) return {};
    if (std::find(above_.begin(), above_.end(), place) != above_.end()) {
      found.left_out.push_back(
          {.name = std::move(name), .why = "a link to a directory that contains it"});
      return {};
    }
    if (above_.size() == 1) found.folders.push_back(name);
    above_.push_back(place);
    STOKER_TRY(walk(name));
    above_.pop_back();
    return {};
  }

  const std::string& root_;
  Place excluded_;
  bool with_hidden_;
  std::vector<Place> above_;  // the root and the directories below it that contain the current one
};

}  // namespace

std::string visible_name(std::string path) {
  for (std::size_t i = 0; i < path.size(); ++i)
    if (path[i] == '.' && (i == 0 || path[i - 1] == '/')) path[i] = '_';
  return path;
}

Result<TreeFiles> walk_tree(const std::string& root, const std::string& excluded,
                            bool with_hidden) {
  Walk walk(root, excluded, with_hidden);
  STOKER_TRY(walk.run());
  return std::move(walk.found);
}

}  // namespace stoker::internal
