#pragma once

#include <fcntl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace stoker {

/// A directory that is open, below which names are looked up.
///
/// Thread safety: immutable.
struct RootDirectory {
  std::string path;  ///< It was opened by; for messages.
  UniqueFd fd;
};

/// Where a file is: a path as a user gave it, or a name below an open directory.
///
/// A path is looked up as open(2) does it, symbolic links included. A name below a directory is
/// looked up from the directory's descriptor, leads nowhere outside of it, and no component of it
/// may be a symbolic link: FileOps answers ELOOP. So whoever can write to the directory cannot make
/// us read, write or remove anything elsewhere.
///
/// Thread safety: immutable; copies share the descriptor.
class PathAt {
 public:
  // A path is what most callers have.
  PathAt(std::string path) : text_(std::move(path)) {}  // NOLINT(google-explicit-constructor)
  PathAt(const char* path) : text_(path) {}             // NOLINT(google-explicit-constructor)
  /// `name` has components, separated by "/"; an empty one is the directory itself.
  PathAt(std::shared_ptr<const RootDirectory> root, std::string_view name);

  /// The whole path, for messages.
  const std::string& text() const noexcept { return text_; }
  bool is_below() const noexcept { return root_ != nullptr; }
  /// AT_FDCWD for a path.
  int root_fd() const noexcept { return root_ == nullptr ? AT_FDCWD : root_->fd.get(); }
  /// What is looked up from root_fd().
  std::string_view name() const noexcept {
    return std::string_view(text_).substr(root_ == nullptr ? 0 : name_begin_);
  }

  /// The last component.
  std::string_view last() const noexcept {
    return std::string_view(text_).substr(text_.rfind('/') + 1);
  }
  PathAt operator/(std::string_view name) const;
  /// The directory that holds the name: "." of a bare one. Not to be asked of a root.
  PathAt parent() const;

 private:
  std::shared_ptr<const RootDirectory> root_;
  std::size_t name_begin_ = 0;
  std::string text_;
};

}  // namespace stoker
